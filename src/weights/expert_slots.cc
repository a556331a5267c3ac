#include "weights/expert_slots.h"

#include "base/check.h"
#include "device/part.h"

namespace sluice::weights {

device::View SlotMemory::Of(int slot, size_t begin, size_t count) const {
  const size_t at = static_cast<size_t>(slot) * slot_bytes + begin;
  CHECK(begin + count <= slot_bytes && at + count <= part.bytes, "bytes ", begin, " + ", count,
        " of slot ", slot);
  return device::Part(part, at, count);
}

std::vector<SlotMemory> SlotMemoryOf(const Parameter& parameter) {
  const size_t slots = parameter.spec.slot_experts.size();
  CHECK(slots > 0, parameter.spec.name, " has no slots");
  std::vector<SlotMemory> memory;
  for (const device::View& part : parameter.slots) {
    CHECK(part.bytes % slots == 0, parameter.spec.name, ": ", part.bytes, " bytes of ", slots);
    memory.push_back({part, part.bytes / slots});
  }
  return memory;
}

}  // namespace sluice::weights
