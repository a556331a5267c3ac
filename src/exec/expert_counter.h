// ExpertCounter: the counts of experts' choices on a device, and what the host knows of them. The
// model's layers add to the counts (model::ForwardContext::expert_counts); now and then a step
// brings them to the host behind its own results, and nobody waits for that. Step thread only.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "device/device.h"
#include "experts/loads.h"
#include "files/model_config.h"
#include "ops/tensor.h"

namespace sluice::exec {

class ExpertCounter {
 public:
  // Null where the model has no experts. `slots`: ModelOptions::expert_slots. `device` must outlive
  // it.
  static Result<std::unique_ptr<ExpertCounter>> Make(device::Device& device,
                                                     const files::ModelConfig& config, int slots);
  // Device memory that Make takes.
  static size_t DeviceBytes(const files::ModelConfig& config, int slots);

  // I32 [layers with experts, experts].
  const ops::Tensor& counts() const { return counts_; }
  // I32 [layers with experts, slots]; empty where there are none.
  const ops::Tensor& slot_counts() const { return slot_counts_; }
  const experts::Loads& loads() const { return loads_; }
  // Of slots, as if they were experts; null where there are none.
  const experts::Loads* slot_loads() const { return slot_loads_ ? &*slot_loads_ : nullptr; }

  // Puts a copy of the counts on the stream, if the last one is long enough ago and has come; says
  // whether it did. Fetched is then to be called when the stream has passed it, or failed.
  Result<bool> Fetch(device::Stream& stream, int64_t now_us);
  void Fetched(bool ok, int64_t now_us);
  // Takes the counts of now; waits for the stream. Nothing while a copy is on its way.
  Status ReadNow(device::Stream& stream, int64_t now_us);
  // Leaves out what was counted so far; waits for the stream. REQUIRES: no copy is on its way.
  Status Restart(device::Stream& stream);

 private:
  ExpertCounter(device::Device& device, experts::Loads loads)
      : device_(device), loads_(std::move(loads)) {}
  Status Copy(device::Stream& stream);
  void Take(int64_t now_us);
  // The counts of experts, and those of slots behind them.
  std::span<const uint32_t> staged() const {
    return {reinterpret_cast<const uint32_t*>(staging_.data()), loads_.all().size()};
  }
  std::span<const uint32_t> staged_slots() const {
    return {staged().data() + staged().size(), slot_loads_->all().size()};
  }

  device::Device& device_;
  experts::Loads loads_;
  device::Buffer memory_, staging_;
  std::optional<experts::Loads> slot_loads_;
  ops::Tensor counts_, slot_counts_;  // in memory_
  bool under_way_ = false;            // a copy to staging_
  int64_t fetched_us_ = 0;            // when the last one was asked for
};

}  // namespace sluice::exec
