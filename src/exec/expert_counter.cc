#include "exec/expert_counter.h"

#include <utility>
#include <vector>

#include "device/part.h"
#include "device/staging.h"
#include "exec/experts_on.h"

namespace sluice::exec {
namespace {

// Between two copies to the host: what is shown follows the load by this much, and a step pays for
// one copy in many.
constexpr int64_t kFetchEveryUs = 250'000;

}  // namespace

size_t ExpertCounter::DeviceBytes(const files::ModelConfig& config, int slots) {
  return device::AlignUp(ExpertLayers(config).size() *
                         static_cast<size_t>(config.experts.count + slots) * sizeof(uint32_t));
}

Result<std::unique_ptr<ExpertCounter>> ExpertCounter::Make(device::Device& device,
                                                           const files::ModelConfig& config,
                                                           int slots) {
  std::vector<int> layers = ExpertLayers(config);
  if (layers.empty()) return std::unique_ptr<ExpertCounter>();
  const auto rows = static_cast<int64_t>(layers.size());
  std::unique_ptr<ExpertCounter> counter(
      new ExpertCounter(device, experts::Loads(layers, config.experts.count)));
  if (slots > 0) counter->slot_loads_.emplace(std::move(layers), slots);
  const size_t bytes = DeviceBytes(config, slots);
  SLUICE_ASSIGN_OR_RETURN(counter->memory_, device.Allocate(bytes, device::MemoryKind::kDevice));
  SLUICE_ASSIGN_OR_RETURN(counter->staging_, device::AllocateStaging(device, bytes));
  counter->counts_ = ops::Dense(counter->memory_.view(), DType::kI32, {rows, config.experts.count});
  if (slots > 0) {
    counter->slot_counts_ = ops::Dense(
        device::Behind(counter->memory_.view(), counter->staged().size() * sizeof(uint32_t)),
        DType::kI32, {rows, slots});
  }
  return counter;
}

Status ExpertCounter::Copy(device::Stream& stream) {
  const device::CopyItem item{staging_.view(), memory_.view()};
  return device_.Copy(stream, {&item, 1});
}

Result<bool> ExpertCounter::Fetch(device::Stream& stream, int64_t now_us) {
  if (under_way_ || now_us - fetched_us_ < kFetchEveryUs) return false;
  SLUICE_RETURN_IF_ERROR(Copy(stream));
  fetched_us_ = now_us;
  under_way_ = true;
  return true;
}

void ExpertCounter::Fetched(bool ok, int64_t now_us) {
  under_way_ = false;
  if (ok) Take(now_us);
}

void ExpertCounter::Take(int64_t now_us) {
  loads_.Take(staged(), now_us);
  if (slot_loads_) slot_loads_->Take(staged_slots(), now_us);
}

Status ExpertCounter::ReadNow(device::Stream& stream, int64_t now_us) {
  if (under_way_) return OkStatus();
  SLUICE_RETURN_IF_ERROR(Copy(stream));
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  Take(now_us);
  return OkStatus();
}

Status ExpertCounter::Restart(device::Stream& stream) {
  CHECK(!under_way_, "counts are on their way");
  SLUICE_RETURN_IF_ERROR(Copy(stream));
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  loads_.Restart(staged());
  if (slot_loads_) slot_loads_->Restart(staged_slots());
  fetched_us_ = 0;
  return OkStatus();
}

}  // namespace sluice::exec
