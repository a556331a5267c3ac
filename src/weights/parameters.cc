#include "weights/parameters.h"

#include "base/str_cat.h"
#include "weights/fill.h"

namespace sluice::weights {
namespace {

Status OtherFormat(const Parameter& parameter, DType now, DType then) {
  return InvalidArgument(StrCat("an update of ", parameter.spec.name, " in ", Name(now),
                                " does not fit its slot, which was loaded as ", Name(then),
                                "; convert the weights or load the model anew"));
}

// Whether `plan` would lie in the slot byte for byte like what is there.
Status CheckFits(const Parameter& parameter, const PlannedParam& plan) {
  if (parameter.spec.role == ParamRole::kEmbedding) {
    const DType now = plan.resolved.tensors.front()->dtype;
    if (now != parameter.tensor.dtype) return OtherFormat(parameter, now, parameter.tensor.dtype);
  }
  for (size_t i = 0; i < parameter.parts.size() && i < plan.parts.size(); ++i) {
    const ops::PackedWeight& slot = parameter.parts[i].weight;
    if (plan.parts[i].dtype != slot.dtype || plan.parts[i].rows != slot.n) {
      return OtherFormat(parameter, plan.parts[i].dtype, slot.dtype);
    }
  }
  if (plan.parts.size() != parameter.parts.size()) {
    return InvalidArgument(StrCat("an update of ", parameter.spec.name, " has ", plan.parts.size(),
                                  " number formats but its slot was loaded with ",
                                  parameter.parts.size(), "; load the model anew"));
  }
  return OkStatus();
}

device::View ViewOf(const ops::Tensor& tensor) {
  return {tensor.data, RowBytes(tensor.dtype, static_cast<size_t>(tensor.size())), tensor.memory,
          tensor.device};
}

}  // namespace

const Parameter* ParameterMap::Find(std::string_view name) const {
  auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : found->second.get();
}

Status ParameterMap::Update(device::Device& device, device::Stream& stream, std::string_view name,
                            const files::TensorSource& source) {
  auto found = parameters_.find(name);
  if (found == parameters_.end()) {
    return Status(StatusCode::kNotFound, StrCat("the model has no parameter \"", name, "\""));
  }
  Parameter& parameter = *found->second;
  PlaceOptions options;
  options.naming = naming_;
  options.activation = activation_;
  SLUICE_ASSIGN_OR_RETURN(const auto plans,
                          PlanParams({parameter.spec}, source, device.ops(), options));
  if (plans.empty()) {
    return Status(StatusCode::kNotFound, StrCat("the update has no tensors for ", name));
  }
  const PlannedParam& plan = *plans.front();
  SLUICE_RETURN_IF_ERROR(CheckFits(parameter, plan));

  std::vector<device::View> slots;
  for (const LinearPart& part : parameter.parts) slots.push_back(ViewOf(part.weight.data));
  if (parameter.parts.empty()) slots.push_back(ViewOf(parameter.tensor));
  // Everything is packed before the first byte of a slot changes.
  std::vector<device::Buffer> staging;
  std::vector<device::CopyItem> copies;
  for (size_t i = 0; i < slots.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                            device.Allocate(slots[i].bytes, device::MemoryKind::kHost));
    std::vector<FillJob> jobs;
    AddFillJobs(SliceOf(plan, i), {buffer.data(), slots[i].bytes}, false, &jobs);
    SLUICE_RETURN_IF_ERROR(RunFillJobs(std::move(jobs), activation_, PackThreads(device)));
    copies.push_back(
        {slots[i], {buffer.data(), slots[i].bytes, buffer.view().memory, buffer.view().device}});
    staging.push_back(std::move(buffer));
  }
  version_ += 1;  // even if the device fails half-way
  SLUICE_RETURN_IF_ERROR(device.Copy(stream, copies));
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  parameter.version += 1;
  return OkStatus();
}

}  // namespace sluice::weights
