// Where the experts of a parameter lie on a device when they lie in slots
// (ParamSpec::slot_experts): each part of the parameter holds equally many bytes for each slot, one
// slot's behind the other's, so that an expert is moved by copying bytes. Plain values; any thread.
#pragma once

#include <vector>

#include "device/device.h"
#include "weights/parameters.h"

namespace sluice::weights {

// A part of a parameter: its matrices, their scales, or biases.
struct SlotMemory {
  device::View part;
  size_t slot_bytes = 0;

  // Bytes [begin, begin + count) of a slot.
  device::View Of(int slot, size_t begin, size_t count) const;
};

// REQUIRES: the parameter's experts lie in slots.
std::vector<SlotMemory> SlotMemoryOf(const Parameter& parameter);

}  // namespace sluice::weights
