#include "exec/draft_kv.h"

#include "device/alignment.h"
#include "exec/carver.h"
#include "exec/layer_view.h"
#include "ops/attention.h"

namespace sluice::exec {
namespace {

size_t DraftPlanBytes(int64_t sequences) {
  const auto numbers = static_cast<size_t>(ops::AttentionPlanNumbers(sequences));
  return device::AlignUp(numbers * sizeof(int32_t));
}

}  // namespace

size_t DraftKv::DeviceBytes(size_t groups, int64_t sequences) {
  return groups * DraftPlanBytes(sequences);
}

Result<std::unique_ptr<DraftKv>> DraftKv::Make(device::Device& device, kvstore::KvStore& store,
                                               int followed, int64_t sequences) {
  std::unique_ptr<DraftKv> kv(new DraftKv(store, followed));
  SLUICE_ASSIGN_OR_RETURN(kv->memory_, device.Allocate(DeviceBytes(kv->groups(), sequences),
                                                       device::MemoryKind::kDevice));
  Carver carver(kv->memory_.view());
  for (size_t g = 0; g < kv->groups(); ++g)
    kv->attention_plans_.push_back(carver.Take({ops::AttentionPlanNumbers(sequences)}));
  for (int layer = 0; layer < store.layer_count(); ++layer)
    kv->kv_.push_back(LayerView(store, layer));
  return kv;
}

Status DraftKv::CopyBlocks(device::Stream& stream, std::span<const batch::BlockCopy> copies) {
  copies_.clear();
  for (const batch::BlockCopy& copy : copies) {
    if (copy.group != followed_) continue;
    for (int g = 0; g < static_cast<int>(groups()); ++g)
      copies_.push_back({g, copy.source, copy.destination});
  }
  return copies_.empty() ? OkStatus() : store_.Copy(stream, copies_);
}

model::ForwardContext DraftKv::Context(device::Stream& stream,
                                       const device::View& workspace) const {
  model::ForwardContext context;
  context.stream = &stream;
  context.workspace = workspace;
  context.kv = kv_;
  context.attention_plans = attention_plans_;
  return context;
}

}  // namespace sluice::exec
