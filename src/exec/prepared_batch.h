// PreparedBatch: a plan turned into device inputs. Move-only; it owns its buffers and its copy
// list, so that one can be built while another executes. Sync must have been called before Execute
// takes it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "batch/plan.h"
#include "device/device.h"
#include "model/forward.h"

namespace sluice::exec {

// The copies of a batch to the device; waits for them before the buffers go.
class PendingCopy {
 public:
  PendingCopy() = default;
  explicit PendingCopy(std::unique_ptr<device::Event> event) : event_(std::move(event)) {}
  PendingCopy(PendingCopy&& other) noexcept { *this = std::move(other); }
  PendingCopy& operator=(PendingCopy&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(pending_, other.pending_);
    return *this;
  }
  ~PendingCopy() { (void)Wait(); }
  // They were put on `stream`.
  Status Begin(device::Stream& stream) {
    pending_ = true;
    return stream.Record(*event_);
  }
  Status Wait() { return std::exchange(pending_, false) ? event_->Synchronize() : OkStatus(); }

 private:
  std::unique_ptr<device::Event> event_;
  bool pending_ = false;
};

class PreparedBatch {
 public:
  PreparedBatch() = default;
  PreparedBatch(PreparedBatch&&) = default;
  PreparedBatch& operator=(PreparedBatch&&) = default;

  // Waits until the inputs are on the device. An error is final: the batch must be dropped.
  Status Sync() {
    SLUICE_RETURN_IF_ERROR(copied_.Wait());
    synced_ = true;
    return OkStatus();
  }
  bool synced() const { return synced_; }
  const batch::BatchPlan& plan() const { return plan_; }
  // What the model will read; valid as long as this batch.
  const model::DeviceBatch& inputs() const { return inputs_; }
  // The bucket that the inputs are laid out for, or -1. They are then not on the device yet: they
  // go there with what the sampler adds when the step is launched.
  int bucket() const { return bucket_; }

 private:
  friend class InputBuilder;
  friend class Executor;

  batch::BatchPlan plan_;
  model::DeviceBatch inputs_;
  device::Buffer host_;    // every input, one after another, each at device::kAlignment
  device::Buffer device_;  // the same on a device that cannot read host_; else empty
  std::vector<device::CopyItem> copies_;
  int bucket_ = -1;
  bool synced_ = false;
  PendingCopy copied_;  // last: the buffers outlive it
};

}  // namespace sluice::exec
