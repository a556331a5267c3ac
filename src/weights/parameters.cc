#include "weights/parameters.h"

#include "base/check.h"
#include "base/str_cat.h"
#include "weights/fill.h"

namespace sluice::weights {
namespace {

Status OtherFormat(const Parameter& parameter, DType now, DType then) {
  return InvalidArgument(StrCat("an update of ", parameter.spec.name, " in ", Name(now),
                                " does not fit its slot, which was loaded as ", Name(then),
                                "; convert the weights or load the model anew"));
}

// Whether `plan` would lie in the slots byte for byte like what is there.
Status CheckFits(const Parameter& parameter, const PlannedParam& plan) {
  if (plan.parts.size() != parameter.slots.size()) {
    return InvalidArgument(StrCat("an update of ", parameter.spec.name, " has ", plan.parts.size(),
                                  " number formats but its slot was loaded with ",
                                  parameter.slots.size(), "; load the model anew"));
  }
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const DType now = plan.parts[i].dtype;
    // Scales stand behind the parts.
    const DType then = parameter.parts.empty()      ? parameter.tensor.dtype
                       : i < parameter.parts.size() ? parameter.parts[i].weight.dtype
                                                    : DType::kF32;
    if (now != then || plan.parts[i].bytes != parameter.slots[i].bytes) {
      return OtherFormat(parameter, now, then);
    }
  }
  return OkStatus();
}

}  // namespace

const Parameter* ParameterMap::Find(std::string_view name) const {
  auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : found->second.get();
}

void ParameterMap::SetSlotExpert(std::string_view name, int slot, int32_t expert) {
  const auto found = parameters_.find(name);
  CHECK(found != parameters_.end(), "no parameter ", name);
  found->second->spec.slot_experts.at(static_cast<size_t>(slot)) = expert;
}

Status ParameterMap::Update(device::Device& device, device::Stream& stream, std::string_view name,
                            const files::TensorSource& source) {
  auto found = parameters_.find(name);
  if (found == parameters_.end()) {
    return Status(StatusCode::kNotFound, StrCat("the model has no parameter \"", name, "\""));
  }
  const Parameter& parameter = *found->second;
  SLUICE_ASSIGN_OR_RETURN(const WeightPlan plan,
                          PlanWeights({Unresolved(parameter.spec)}, source, device, options_));
  const PlannedParam& planned = plan.params.front();
  SLUICE_RETURN_IF_ERROR(CheckFits(parameter, planned));

  // Everything is packed before the first byte of a slot changes.
  std::vector<device::Buffer> staging;
  std::vector<device::CopyItem> copies;
  std::vector<FillJob> jobs;
  for (size_t i = 0; i < planned.parts.size(); ++i) {
    const device::View& slot = parameter.slots[i];
    SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                            device.Allocate(slot.bytes, device::MemoryKind::kHost));
    device::View packed = buffer.view();
    packed.bytes = slot.bytes;
    AddFillJobs(PartRows::Whole(planned, planned.parts[i]), {packed.data, packed.bytes}, false,
                &jobs);
    copies.push_back({slot, packed});
    staging.push_back(std::move(buffer));
  }
  SLUICE_RETURN_IF_ERROR(RunFillJobs(std::move(jobs), PackThreads(device)));
  version_ += 1;  // even if the device fails half-way
  SLUICE_RETURN_IF_ERROR(device.Copy(stream, copies));
  return stream.Synchronize();
}

}  // namespace sluice::weights
