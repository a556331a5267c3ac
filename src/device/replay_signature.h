// What the values of a graph's replays must agree with, the same for every device. Pure; belongs to
// one graph, and is used by the thread that replays it.
#pragma once

#include <string>
#include <vector>

#include "device/graph.h"

namespace sluice::device {

// The rule of device::Graph::Replay.
class ReplaySignature {
 public:
  // The first call that is right fixes names, sizes and places. kInvalidArgument names the value
  // that is missing, unknown, there twice, or of another size or place; it changes nothing.
  Status Check(const ReplayParams& params);

 private:
  struct Slot {
    std::string name;
    std::byte* destination;
    size_t bytes;
  };
  bool fixed_ = false;
  std::vector<Slot> slots_;
};

}  // namespace sluice::device
