// PreparedBatch: a plan and its inputs in host memory. Move-only; it owns its buffers, which are
// left alone until its step is done.
#pragma once

#include "batch/plan.h"
#include "device/device.h"
#include "exec/step_inputs.h"

namespace sluice::exec {

struct PreparedBatch {
  batch::BatchPlan plan;
  // StepInputs, laid out as `shape` says; behind them what the sampler is given.
  device::Buffer host;
  InputShape shape;
  size_t bytes = 0;  // taken of `host`
  int bucket = -1;   // that the inputs are laid out for, or -1
  // It would be of a bucket's size, but tells more block ids than that has room for.
  bool overfull = false;
};

}  // namespace sluice::exec
