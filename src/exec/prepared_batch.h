// PreparedBatch: a plan turned into device inputs. Move-only; it owns its buffers and its copy
// list, so that one can be built while another executes. Sync must have been called before Execute
// takes it.
#pragma once

#include <utility>
#include <vector>

#include "batch/plan.h"
#include "device/device.h"
#include "model/forward.h"

namespace sluice::exec {

class PreparedBatch {
 public:
  PreparedBatch() = default;
  PreparedBatch(PreparedBatch&&) = default;
  PreparedBatch& operator=(PreparedBatch&&) = default;

  // Waits until the inputs are on the device. An error is final: the batch must be dropped.
  Status Sync() {
    SLUICE_RETURN_IF_ERROR(copied_ ? copied_->Synchronize() : OkStatus());
    synced_ = true;
    return OkStatus();
  }
  bool synced() const { return synced_; }
  const batch::BatchPlan& plan() const { return plan_; }
  // What the model will read; valid as long as this batch.
  const model::DeviceBatch& inputs() const { return inputs_; }

 private:
  friend class InputBuilder;
  friend class Executor;

  batch::BatchPlan plan_;
  model::DeviceBatch inputs_;
  device::Buffer host_;    // every input, one after another, 256-byte aligned
  device::Buffer device_;  // the same on a device that cannot read host_; else empty
  std::vector<device::CopyItem> copies_;
  std::unique_ptr<device::Event> copied_;
  bool synced_ = false;
};

}  // namespace sluice::exec
