// KvSink: told of every KV write of a forward pass, layer by layer. The disaggregation writer is
// one; tests have fakes. Called on the step thread. Order: Begin, LayerWritten for each layer in
// ascending order, then exactly one of Finish and Abort; any other order is an error of the caller.
#pragma once

#include <cstdint>

#include "batch/plan.h"
#include "sluice/status.h"

namespace sluice::batch {

class KvSink {
 public:
  // An opaque handle of the device event after which the layer's K, V and scales are in place;
  // 0 when they already are. exec gives device::Event's address.
  using EventHandle = std::uintptr_t;

  virtual ~KvSink() = default;
  // Blocks that the plan names stay pinned from here until the sink lets go.
  virtual Status Begin(const BatchPlan& plan) = 0;
  virtual Status LayerWritten(int layer, int group, EventHandle event) = 0;
  virtual Status Finish() = 0;
  virtual void Abort() = 0;
};

}  // namespace sluice::batch
