#include "weights/place.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "weights/transform.h"

namespace sluice::weights {
namespace {

// Packing is bound by memory; more threads of a large host do not help.
constexpr int kPackThreadsMax = 16;

DType VectorDType(ParamRole role, DType activation) {
  return role == ParamRole::kBias ? activation : DType::kF32;
}

size_t PartBytes(const PlannedParam& param, size_t i, DType activation) {
  const ParamSpec& spec = param.resolved.spec;
  switch (spec.role) {
    case ParamRole::kLinear:
      return param.parts[i].bytes;
    case ParamRole::kEmbedding:
      return RowBytes(param.resolved.tensors.front()->dtype,
                      static_cast<size_t>(spec.rows * spec.columns));
    default:
      return RowBytes(VectorDType(spec.role, activation), static_cast<size_t>(spec.rows));
  }
}

size_t PartCount(const PlannedParam& param) {
  return param.resolved.spec.role == ParamRole::kLinear ? param.parts.size() : 1;
}

// The embedding whose bytes this matrix could read in place, or nullptr.
const PlannedParam* FindShared(const std::vector<std::unique_ptr<PlannedParam>>& earlier,
                               const PlannedParam& param) {
  if (param.resolved.spec.role != ParamRole::kLinear || param.parts.size() != 1 ||
      param.parts[0].count != 1 || param.parts[0].packing->layout != ops::LayoutId::kRowMajor) {
    return nullptr;
  }
  for (const auto& other : earlier) {
    if (other->resolved.spec.role == ParamRole::kEmbedding &&
        other->resolved.tensors.front() == param.resolved.tensors.front()) {
      return other.get();
    }
  }
  return nullptr;
}

}  // namespace

size_t PlannedParam::bytes(DType activation) const {
  size_t total = 0;
  if (shares != nullptr) return total;
  for (size_t i = 0; i < PartCount(*this); ++i) total += PartBytes(*this, i, activation);
  return total;
}

Result<std::vector<std::unique_ptr<PlannedParam>>> PlanParams(const std::vector<ParamSpec>& specs,
                                                              const files::TensorSource& source,
                                                              const ops::OpTable& table,
                                                              const PlaceOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<ResolvedParam> resolved,
                          Resolve(specs, source, options.naming));
  std::vector<std::unique_ptr<PlannedParam>> planned;
  for (ResolvedParam& param : resolved) {
    auto plan = std::make_unique<PlannedParam>();
    if (param.spec.role == ParamRole::kLinear) {
      SLUICE_ASSIGN_OR_RETURN(plan->parts,
                              PlanParts(param, table, options.activation, options.records));
    }
    plan->resolved = std::move(param);
    plan->shares = FindShared(planned, *plan);
    planned.push_back(std::move(plan));
  }
  return planned;
}

Status FillPart(const PlannedParam& param, size_t i, DType activation, int threads,
                std::span<std::byte> out) {
  const ResolvedParam& resolved = param.resolved;
  if (resolved.spec.role == ParamRole::kLinear) {
    return PackPart(resolved, param.parts[i], threads, out);
  }
  if (resolved.spec.role == ParamRole::kEmbedding) {
    const std::span<const std::byte> rows = resolved.tensors.front()->data;
    CHECK(rows.size() == out.size(), resolved.spec.name, ": ", rows.size(), " != ", out.size());
    std::memcpy(out.data(), rows.data(), rows.size());
    return OkStatus();
  }
  const std::vector<std::byte> values =
      VectorBytes(resolved, VectorDType(resolved.spec.role, activation));
  CHECK(values.size() == out.size(), resolved.spec.name, ": ", values.size(), " != ", out.size());
  std::memcpy(out.data(), values.data(), values.size());
  return OkStatus();
}

int PackThreads(const device::Device& device) {
  if (device.facts().id.kind == device::DeviceKind::kCpu) return device.facts().compute_units;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kPackThreadsMax);
}

// Allocates and fills the parameters of one load.
class Placer {
 public:
  Placer(device::Device& device, const files::TensorSource& source, const PlaceOptions& options)
      : device_(device), source_(source), options_(options), threads_(PackThreads(device)) {
    map_.naming_ = options.naming;
    map_.activation_ = options.activation;
  }

  Status CheckMemory(const std::vector<std::unique_ptr<PlannedParam>>& params) {
    for (const auto& param : params) bytes_total_ += param->bytes(options_.activation);
    return FreeBytesBeside(bytes_total_, device_).status();
  }

  Status PlaceAll(const std::vector<std::unique_ptr<PlannedParam>>& params) {
    SLUICE_ASSIGN_OR_RETURN(stream_, device_.CreateStream());
    for (const auto& param : params) {
      SLUICE_RETURN_IF_ERROR(PlaceOne(*param).WithContext(param->resolved.spec.name));
      for (const files::FileTensor* tensor : param->resolved.tensors) source_.Release(*tensor);
      bytes_done_ += param->bytes(options_.activation);
      if (options_.progress) options_.progress(bytes_done_, bytes_total_);
    }
    return stream_->Synchronize();
  }

  ParameterMap Take() { return std::move(map_); }

 private:
  Status PlaceOne(const PlannedParam& plan) {
    auto parameter = std::make_unique<Parameter>();
    parameter->spec = plan.resolved.spec;
    for (size_t i = 0; i < PartCount(plan); ++i) {
      device::View view;
      if (plan.shares != nullptr) {
        view = map_.parameters_.at(plan.shares->resolved.spec.name)->buffers.front().view();
      } else {
        SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer, Fill(plan, i));
        view = buffer.view();
        parameter->buffers.push_back(std::move(buffer));
      }
      Describe(plan, i, view, parameter.get());
    }
    map_.parameters_[parameter->spec.name] = std::move(parameter);
    return OkStatus();
  }

  Result<device::Buffer> Fill(const PlannedParam& plan, size_t i) {
    const size_t bytes = PartBytes(plan, i, options_.activation);
    SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                            device_.Allocate(bytes, device::MemoryKind::kDevice));
    if (!device_.facts().device_memory) {
      SLUICE_RETURN_IF_ERROR(
          FillPart(plan, i, options_.activation, threads_, {buffer.data(), bytes}));
      return buffer;
    }
    SLUICE_ASSIGN_OR_RETURN(device::Buffer staging,
                            device_.Allocate(bytes, device::MemoryKind::kHost));
    SLUICE_RETURN_IF_ERROR(
        FillPart(plan, i, options_.activation, threads_, {staging.data(), bytes}));
    const device::CopyItem item{buffer.view(), staging.view()};
    SLUICE_RETURN_IF_ERROR(device_.Copy(*stream_, {&item, 1}));
    SLUICE_RETURN_IF_ERROR(stream_->Synchronize());
    return buffer;
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
    } else {
      parameter->tensor =
          ops::Dense(view, VectorDType(spec.role, options_.activation), {spec.rows});
    }
  }

  device::Device& device_;
  const files::TensorSource& source_;
  const PlaceOptions& options_;
  const int threads_;
  std::unique_ptr<device::Stream> stream_;
  ParameterMap map_;
  size_t bytes_done_ = 0, bytes_total_ = 0;
};

Result<size_t> PlacedBytes(const std::vector<ParamSpec>& specs, const files::TensorSource& source,
                           const device::Device& device, const PlaceOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const auto params, PlanParams(specs, source, device.ops(), options));
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
  Placer placer(device, source, options);
  SLUICE_RETURN_IF_ERROR(placer.CheckMemory(params));
  SLUICE_RETURN_IF_ERROR(placer.PlaceAll(params));
  return placer.Take();
}

}  // namespace sluice::weights
