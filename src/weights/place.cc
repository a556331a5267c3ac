#include "weights/place.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "device/alignment.h"
#include "device/part.h"
#include "weights/fill.h"
#include "weights/repack.h"
#include "weights/staged_fill.h"

namespace sluice::weights {
namespace {

// What a device gives at most in one piece, unless one part is larger.
constexpr size_t kArenaBytes = 256u << 20;
// A matrix whose rows are released as they are packed.
constexpr size_t kLargeBytes = 4u << 20;

// Keeps a mapping as long as a buffer.
class MappedDeleter : public device::Buffer::Deleter {
 public:
  explicit MappedDeleter(std::shared_ptr<std::byte> mapped) : mapped_(std::move(mapped)) {}
  void Free(const device::View&) override { mapped_.reset(); }

 private:
  std::shared_ptr<std::byte> mapped_;
};

}  // namespace

// Allocates and fills the parameters of one load.
class Placer {
 public:
  Placer(WeightPlan& plan, device::Device& device, const PlaceOptions& options)
      : plan_(plan), device_(device), options_(options), loader_(std::this_thread::get_id()) {
    map_.options_ = plan.options;
  }

  Result<ParameterMap> Run() {
    for (const PlannedParam& param : plan_.params) {
      if (param.bytes() == 0) continue;
      for (const PlannedPart& part : param.parts) bytes_left_ += device::AlignUp(part.bytes);
    }
    for (PlannedParam& param : plan_.params) {
      SLUICE_RETURN_IF_ERROR(Reserve(param).WithContext("memory for the weights"));
    }
    SLUICE_RETURN_IF_ERROR(device_.facts().device_memory ? FillStaged() : FillInPlace());
    if (options_.progress && bytes_told_ != plan_.bytes)
      options_.progress(plan_.bytes, plan_.bytes);
    return std::move(map_);
  }

 private:
  Status Reserve(PlannedParam& param) {
    auto parameter = std::make_unique<Parameter>();
    parameter->spec = param.resolved.spec;
    for (PlannedPart& part : param.parts) {
      SLUICE_ASSIGN_OR_RETURN(part.place, PlaceFor(param, part.bytes));
      parameter->slots.push_back(part.place);
      Describe(part, parameter.get());
    }
    map_.parameters_[parameter->spec.name] = std::move(parameter);
    return OkStatus();
  }

  // Parts lie one behind the other in large pieces of memory, so that huge pages hold them and the
  // system clears each byte once.
  Result<device::View> PlaceFor(const PlannedParam& param, size_t bytes) {
    if (param.shares) return plan_.params[*param.shares].parts.front().place;
    if (param.mapped != nullptr) {
      const device::View view{param.mapped.get(), bytes, device::MemoryKind::kHost,
                              device_.facts().id};
      map_.memory_.emplace_back(view, std::make_shared<MappedDeleter>(param.mapped));
      return view;
    }
    map_.bytes_ += bytes;
    if (arena_.bytes < bytes) {
      const size_t size = std::max(bytes, std::min(bytes_left_, kArenaBytes));
      SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                              device_.Allocate(size, device::MemoryKind::kDevice));
      arena_ = buffer.view();
      map_.memory_.push_back(std::move(buffer));
    }
    const device::View view = device::Part(arena_, 0, bytes);
    arena_ = device::Behind(arena_, std::min(device::AlignUp(bytes), arena_.bytes));
    bytes_left_ -= device::AlignUp(bytes);
    return view;
  }

  // What ops are given of a part that has its place.
  static void Describe(const PlannedPart& part, Parameter* parameter) {
    const ParamSpec& spec = parameter->spec;
    if (part.scales_of) return DescribeScales(part, &parameter->parts[*part.scales_of]);
    if (part.order_of) {
      ops::PackedWeight& weight = parameter->parts[*part.order_of].weight;
      weight.order = ops::Dense(part.place, DType::kI32, {weight.k});
      return;
    }
    if (part.packing == nullptr) {
      parameter->tensor = spec.columns > 0
                              ? ops::Dense(part.place, part.dtype, {spec.rows, spec.columns})
                              : ops::Dense(part.place, part.dtype, {spec.rows});
      return;
    }
    ops::PackedWeight weight{{}, part.dtype, part.packing->layout, part.rows, spec.columns};
    weight.data = weight.layout == ops::LayoutId::kRowMajor
                      ? ops::Dense(part.place, part.dtype, {part.rows, spec.columns})
                      : ops::Dense(part.place, DType::kU8, {static_cast<int64_t>(part.bytes)});
    parameter->parts.push_back({part.linear, part.grouped, weight, part.row_begin});
  }

  static void DescribeScales(const PlannedPart& part, LinearPart* of) {
    const ops::Linear::Desc& desc =
        of->grouped.bound() ? of->grouped.desc().each : of->linear.desc();
    ops::Linear::Desc all = desc;
    all.n = of->weight.n;
    const std::vector<int64_t> shape = ops::ScaleShape(all);
    of->weight.scales = shape.size() == 2
                            ? ops::Dense(part.place, DType::kF32, {shape[0], shape[1]})
                            : ops::Dense(part.place, DType::kF32, {shape[0]});
    if (desc.x_scales != ops::ActivationScales::kTensor) return;
    of->weight.x_scale =
        ops::Dense(device::Behind(part.place, part.place.bytes - sizeof(float)), DType::kF32, {1});
  }

  Status FillInPlace() {
    std::vector<FillJob> jobs;
    for (const PlannedParam& param : plan_.params) {
      if (param.bytes() == 0) continue;
      const size_t before = jobs.size();
      for (const PlannedPart& part : param.parts) {
        AddFillJobs(PartRows::Whole(param, part), {part.place.data, part.place.bytes}, false,
                    &jobs);
      }
      jobs_left_[&param] = jobs.size() - before;
    }
    return RunFillJobs(std::move(jobs), PackThreads(device_), [this](const FillJob& job) {
      ReleaseRows(job);
      std::lock_guard lock(mutex_);
      if (--jobs_left_[job.held.param] == 0) Placed(*job.held.param);
    });
  }

  Status FillStaged() {
    StagedFillOptions staged;
    staged.buffer_bytes = options_.staging_bytes;
    staged.filled = [this](const FillJob& job) { ReleaseRows(job); };
    staged.placed = [this](const PlannedParam& param) { Placed(param); };
    return FillThroughStaging(device_, plan_.params, staged);
  }

  // Of a large matrix, so that it is not resident twice.
  void ReleaseRows(const FillJob& job) const {
    const PlannedPart& part = *job.held.part;
    if (part.packing == nullptr || part.bytes < kLargeBytes) return;
    const ResolvedParam& param = job.held.param->resolved;
    (void)ForEachRun(param, part, job.rows, [&](size_t i, const RowRun& run) {
      // Rows that are made of others' bytes lie beside those.
      if (param.derived[i] == nullptr) {
        plan_.source->Release(RowsOf(*param.tensors[i], run.from, run.count));
      }
      return OkStatus();
    });
  }

  // The file's bytes of this parameter have been read. Progress is told on the loading thread.
  void Placed(const PlannedParam& param) {
    const ResolvedParam& resolved = param.resolved;
    for (size_t i = 0; i < resolved.tensors.size(); ++i) {
      plan_.source->Release(resolved.derived[i] ? resolved.derived[i]->stored()
                                                : *resolved.tensors[i]);
    }
    bytes_done_ += param.bytes();
    if (!options_.progress || std::this_thread::get_id() != loader_) return;
    options_.progress(bytes_done_, plan_.bytes);
    bytes_told_ = bytes_done_;
  }

  WeightPlan& plan_;
  device::Device& device_;
  const PlaceOptions& options_;
  const std::thread::id loader_;
  ParameterMap map_;
  device::View arena_;     // what is left of the last piece of memory
  size_t bytes_left_ = 0;  // of memory that later parts need

  std::mutex mutex_;  // while jobs run
  std::map<const PlannedParam*, size_t> jobs_left_;
  size_t bytes_done_ = 0, bytes_told_ = 0;
};

Result<size_t> FreeBytesBeside(size_t bytes, const device::Device& device) {
  SLUICE_ASSIGN_OR_RETURN(const device::MemoryInfo memory, device.Memory());
  if (bytes <= memory.free_bytes) return memory.free_bytes - bytes;
  return Status(StatusCode::kOutOfMemory,
                StrCat("the model's weights need ", FormatBytes(bytes), " but ",
                       device::ToString(device.facts().id), " has ", FormatBytes(memory.free_bytes),
                       " free; use a smaller model or one with fewer bits per weight"));
}

Result<ParameterMap> Place(WeightPlan plan, device::Device& device, const PlaceOptions& options) {
  SLUICE_RETURN_IF_ERROR(FreeBytesBeside(plan.bytes, device).status());
  return Placer(plan, device, options).Run();
}

}  // namespace sluice::weights
