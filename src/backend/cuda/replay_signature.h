// What a replay's values must agree with. Pure; belongs to one graph.
#pragma once

#include <string>
#include <vector>

#include "device/graph.h"

namespace sluice::cuda {

// The values of a replay against those of the first: every name once, with the same destination
// and size. Pure.
class ReplaySignature {
 public:
  // The first call fixes the signature. kInvalidArgument names the value that is missing, unknown,
  // or of another size or place.
  Status Check(const device::ReplayParams& params);

 private:
  struct Slot {
    std::string name;
    std::byte* destination;
    size_t bytes;
  };
  bool fixed_ = false;
  std::vector<Slot> slots_;
};

}  // namespace sluice::cuda
