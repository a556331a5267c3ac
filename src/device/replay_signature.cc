#include "device/replay_signature.h"

#include "base/str_cat.h"

namespace sluice::device {

Status ReplaySignature::Check(const ReplayParams& params) {
  if (!fixed_) {
    for (size_t i = 0; i < params.values.size(); ++i) {
      const auto& value = params.values[i];
      for (size_t j = 0; j < i; ++j) {
        if (params.values[j].name == value.name)
          return InvalidArgument(StrCat("a replay has two values called \"", value.name, "\""));
      }
      if (value.source.bytes != value.destination.bytes) {
        return InvalidArgument(StrCat("the replayed value \"", value.name, "\" has ",
                                      value.source.bytes, " bytes, its place ",
                                      value.destination.bytes));
      }
    }
    slots_.clear();
    for (const auto& value : params.values)
      slots_.push_back({value.name, value.destination.data, value.destination.bytes});
    fixed_ = true;
    return OkStatus();
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (i >= params.values.size() || params.values[i].name != slot.name) {
      return InvalidArgument(StrCat("a replay lacks the value \"", slot.name,
                                    "\" at its place in the order of the first replay"));
    }
    const auto& value = params.values[i];
    if (value.source.bytes != slot.bytes || value.destination.bytes != slot.bytes ||
        value.destination.data != slot.destination) {
      return InvalidArgument(StrCat("the replayed value \"", slot.name, "\" has ",
                                    value.source.bytes, " bytes, ", slot.bytes,
                                    " at the first replay, or goes elsewhere"));
    }
  }
  if (params.values.size() > slots_.size()) {
    return InvalidArgument(StrCat("the value \"", params.values[slots_.size()].name,
                                  "\" was not there at the first replay"));
  }
  return OkStatus();
}

}  // namespace sluice::device
