#include "weights/place.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "device/alignment.h"
#include "weights/fill.h"
#include "weights/staged_fill.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// What a device gives at most in one piece, unless one part is larger.
constexpr size_t kArenaBytes = 256u << 20;
// A matrix whose rows are released as they are packed.
constexpr size_t kLargeBytes = 4u << 20;
// Rows that are read in place: every number format's own alignment, and GGUF's least.
constexpr uintptr_t kMappedAlignment = 8;

// Of an embedding a token reads one row: where the device reads host memory, the file's rows serve.
void MapEmbeddings(const std::vector<std::unique_ptr<PlannedParam>>& params,
                   const files::TensorSource& source, const device::Device& device) {
  if (device.facts().device_memory) return;
  for (const auto& param : params) {
    if (param->resolved.spec.role != ParamRole::kEmbedding) continue;
    auto mapped = source.MapPrivately(*param->resolved.tensors.front());
    if (reinterpret_cast<uintptr_t>(mapped.get()) % kMappedAlignment == 0) {
      param->mapped = std::move(mapped);
    }
  }
}

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
  using Params = std::vector<std::unique_ptr<PlannedParam>>;

  Placer(device::Device& device, const files::TensorSource& source, const PlaceOptions& options)
      : device_(device), source_(source), options_(options), loader_(std::this_thread::get_id()) {
    map_.naming_ = options.naming;
    map_.activation_ = options.activation;
  }

  Status CheckMemory(const Params& params) {
    for (const auto& param : params) bytes_total_ += param->bytes(options_.activation);
    return FreeBytesBeside(bytes_total_, device_).status();
  }

  Status PlaceAll(const Params& params) {
    size_t left = 0;  // bytes of memory that later parts need
    for (const auto& param : params) left += PaddedBytes(*param);
    for (const auto& param : params) {
      // Memory is taken for many parameters at once.
      SLUICE_RETURN_IF_ERROR(Reserve(*param, &left).WithContext("memory for the weights"));
    }
    SLUICE_RETURN_IF_ERROR(device_.facts().device_memory ? FillStaged(params)
                                                         : FillInPlace(params));
    if (options_.progress && bytes_told_ != bytes_total_) {
      options_.progress(bytes_total_, bytes_total_);
    }
    return OkStatus();
  }

  ParameterMap Take() { return std::move(map_); }

 private:
  size_t PaddedBytes(const PlannedParam& plan) const {
    if (plan.bytes(options_.activation) == 0) return 0;
    size_t total = 0;
    for (size_t i = 0; i < plan.part_count(); ++i) {
      total += device::AlignUp(plan.part_bytes(i, options_.activation));
    }
    return total;
  }

  // Gives a parameter its memory. Parts lie one behind the other in large pieces, so that huge
  // pages hold them and the system clears each byte once.
  Status Reserve(PlannedParam& plan, size_t* left) {
    auto parameter = std::make_unique<Parameter>();
    parameter->spec = plan.resolved.spec;
    for (size_t i = 0; i < plan.part_count(); ++i) {
      SLUICE_ASSIGN_OR_RETURN(const device::View view, ViewFor(plan, i, left));
      plan.places.push_back(view);
      Describe(plan, i, view, parameter.get());
    }
    map_.parameters_[parameter->spec.name] = std::move(parameter);
    return OkStatus();
  }

  Result<device::View> ViewFor(const PlannedParam& plan, size_t i, size_t* left) {
    const size_t bytes = plan.part_bytes(i, options_.activation);
    if (plan.shares != nullptr) return plan.shares->places.front();
    if (plan.mapped != nullptr) {
      const device::View view{plan.mapped.get(), bytes, device::MemoryKind::kHost,
                              device_.facts().id};
      map_.memory_.emplace_back(view, std::make_shared<MappedDeleter>(plan.mapped));
      return view;
    }
    map_.bytes_ += bytes;
    if (arena_.bytes < bytes) {
      const size_t size = std::max(bytes, std::min(*left, kArenaBytes));
      SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                              device_.Allocate(size, device::MemoryKind::kDevice));
      arena_ = buffer.view();
      map_.memory_.push_back(std::move(buffer));
    }
    device::View view = arena_;
    view.bytes = bytes;
    const size_t taken = std::min(device::AlignUp(bytes), arena_.bytes);
    arena_.data += taken;
    arena_.bytes -= taken;
    *left -= device::AlignUp(bytes);
    return view;
  }

  Status FillInPlace(const Params& params) {
    std::vector<FillJob> jobs;
    for (const auto& param : params) {
      if (param->bytes(options_.activation) == 0) continue;
      const size_t before = jobs.size();
      for (size_t i = 0; i < param->part_count(); ++i) {
        AddFillJobs(SliceOf(*param, i), {param->places[i].data, param->places[i].bytes}, false,
                    &jobs);
      }
      jobs_left_[param.get()] = jobs.size() - before;
    }
    return RunFillJobs(std::move(jobs), options_.activation, PackThreads(device_),
                       [this](const FillJob& job) {
                         ReleaseRows(job);
                         std::lock_guard lock(mutex_);
                         if (--jobs_left_[job.held.param] == 0) Placed(*job.held.param);
                       });
  }

  Status FillStaged(const Params& params) {
    StagedFillOptions staged;
    staged.buffer_bytes = options_.staging_bytes;
    staged.activation = options_.activation;
    staged.filled = [this](const FillJob& job) { ReleaseRows(job); };
    staged.placed = [this](const PlannedParam& param) { Placed(param); };
    return FillThroughStaging(device_, params, staged);
  }

  // Of a large matrix, so that it is not resident twice.
  void ReleaseRows(const FillJob& job) const {
    const PlannedParam& param = *job.held.param;
    if (param.resolved.spec.role != ParamRole::kLinear) return;
    const PartPlan& plan = param.parts[job.held.part];
    if (plan.bytes < kLargeBytes) return;
    int64_t row = 0;
    for (size_t i = plan.first; i < plan.first + plan.count; ++i) {
      const ParamSource& source = param.resolved.sources[i];
      const int64_t to = std::min(job.rows.end - row, source.rows);
      for (int64_t at = std::max<int64_t>(job.rows.begin - row, 0); at < to;) {
        const RowRun run = RunAt(source, at, to);
        ReleaseRun(*param.resolved.tensors[i], run);
        at += run.count;
      }
      row += source.rows;
    }
  }

  void ReleaseRun(files::FileTensor tensor, const RowRun& run) const {
    const size_t row_bytes = tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
    tensor.data = tensor.data.subspan(static_cast<size_t>(run.from) * row_bytes,
                                      static_cast<size_t>(run.count) * row_bytes);
    source_.Release(tensor);
  }

  // The file's bytes of this parameter have been read. Progress is told on the loading thread.
  void Placed(const PlannedParam& plan) {
    for (const files::FileTensor* tensor : plan.resolved.tensors) source_.Release(*tensor);
    bytes_done_ += plan.bytes(options_.activation);
    if (!options_.progress || std::this_thread::get_id() != loader_) return;
    options_.progress(bytes_done_, bytes_total_);
    bytes_told_ = bytes_done_;
  }

  void Describe(const PlannedParam& plan, size_t i, const device::View& view,
                Parameter* parameter) const {
    const ParamSpec& spec = plan.resolved.spec;
    if (spec.role == ParamRole::kLinear) {
      const PartPlan& part = plan.parts[i];
      ops::PackedWeight weight{{}, part.dtype, part.packing->layout, part.rows, spec.columns};
      weight.data = weight.layout == ops::LayoutId::kRowMajor
                        ? ops::Dense(view, part.dtype, {part.rows, spec.columns})
                        : ops::Dense(view, DType::kU8, {static_cast<int64_t>(part.bytes)});
      parameter->parts.push_back({part.linear, weight, part.row_begin});
    } else if (spec.role == ParamRole::kEmbedding) {
      parameter->tensor =
          ops::Dense(view, plan.resolved.tensors.front()->dtype, {spec.rows, spec.columns});
    } else if (spec.role == ParamRole::kTaps) {
      parameter->tensor = ops::Dense(view, DType::kF32, {spec.rows, spec.columns});
    } else {
      parameter->tensor =
          ops::Dense(view, VectorDType(spec.role, options_.activation), {spec.rows});
    }
  }

  device::Device& device_;
  const files::TensorSource& source_;
  const PlaceOptions& options_;
  const std::thread::id loader_;
  ParameterMap map_;
  device::View arena_;  // what is left of the last piece of memory
  size_t bytes_total_ = 0;

  std::mutex mutex_;  // while jobs run
  std::map<const PlannedParam*, size_t> jobs_left_;
  size_t bytes_done_ = 0, bytes_told_ = 0;
};

Result<size_t> PlacedBytes(const std::vector<ParamSpec>& specs, const files::TensorSource& source,
                           const device::Device& device, const PlaceOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const auto params, PlanParams(specs, source, device.ops(), options));
  MapEmbeddings(params, source, device);
  size_t total = 0;
  for (const auto& param : params) total += param->bytes(options.activation);
  return total;
}

Result<size_t> FreeBytesBeside(size_t bytes, const device::Device& device) {
  SLUICE_ASSIGN_OR_RETURN(const device::MemoryInfo memory, device.Memory());
  if (bytes <= memory.free_bytes) return memory.free_bytes - bytes;
  return Status(StatusCode::kOutOfMemory,
                StrCat("the model's weights need ", FormatBytes(bytes), " but ",
                       device::ToString(device.facts().id), " has ", FormatBytes(memory.free_bytes),
                       " free; use a smaller model or one with fewer bits per weight"));
}

Result<ParameterMap> Place(const std::vector<ParamSpec>& specs, const files::TensorSource& source,
                           device::Device& device, const PlaceOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const auto params, PlanParams(specs, source, device.ops(), options));
  MapEmbeddings(params, source, device);
  Placer placer(device, source, options);
  SLUICE_RETURN_IF_ERROR(placer.CheckMemory(params));
  SLUICE_RETURN_IF_ERROR(placer.PlaceAll(params));
  return placer.Take();
}

}  // namespace sluice::weights
