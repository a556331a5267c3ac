// DeviceProposer: guesses on the device, behind each step, what its sequences draw next. The
// guesses stay there, beside the token that was drawn, and later plans name them. Step thread only.
#pragma once

#include <span>

#include "exec/step_inputs.h"
#include "exec/tree_shape.h"
#include "kvstore/kv_store.h"
#include "model/model.h"
#include "sample/proposals.h"

namespace sluice::exec {

class DeviceProposer {
 public:
  virtual ~DeviceProposer() = default;
  // Before a step: blocks of the target's groups are copied, and so must be what stands beside them
  // in pools of the proposer's own.
  virtual Status CopyBlocks(device::Stream&, std::span<const batch::BlockCopy>) {
    return OkStatus();
  }
  // Behind the sampling of a step whose inputs were `given` and `placed`: `guesses` of each
  // sequence that guesses. 0: the step's tokens are taken note of alone; below 0 they may be passed
  // over. `observer` is told of KV that is written in the target's groups; may be null.
  virtual Status Propose(device::Stream& stream, const StepInputs& given,
                         const model::DeviceBatch& placed, int guesses,
                         model::LayerObserver* observer) = 0;
  // It met an error, was passed over from then on, and will be.
  virtual bool failed() const { return false; }
  // Where guesses are trees: the nodes of those that the first `drafts` sequences got last, I32
  // [drafts, nodes, ops::GrowTrees::kNodeNumbers]; else empty.
  virtual ops::Tensor nodes(int64_t drafts) const {
    (void)drafts;
    return {};
  }
  virtual TreeShape tree() const { return {}; }  // of those
  // What its guesses were drawn from; empty where it takes the likeliest.
  virtual sample::Proposals proposals() const { return {}; }
};

}  // namespace sluice::exec
