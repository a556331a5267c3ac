#include "exec/expert_mover.h"

#include <algorithm>
#include <cstring>

#include "base/parse_bytes.h"
#include "base/str_cat.h"
#include "device/part.h"
#include "device/staging.h"
#include "exec/experts_on.h"
#include "files/architectures.h"

namespace sluice::exec {
namespace {

size_t MapBytes(size_t layers, int64_t row) {
  return layers * static_cast<size_t>(row) * sizeof(int32_t);
}

}  // namespace

Result<ExpertRanks> ExpertRanksOf(const files::ModelConfig& config, const EngineOptions& options) {
  ExpertRanks ranks;
  SLUICE_ASSIGN_OR_RETURN(ranks.interval,
                          experts::ParseBalanceInterval(options.expert_balance_interval));
  ranks.interval_text = options.expert_balance_interval;
  SLUICE_ASSIGN_OR_RETURN(ranks.step_bytes,
                          ParseBytes(options.expert_migration_bytes, "--expert-migration-bytes"));
  if (ranks.step_bytes == 0) {
    return InvalidArgument(
        "--expert-migration-bytes is 0, so that no expert could move; give 1 or "
        "more, or --expert-balance-interval none",
        "expert-migration-bytes");
  }
  if (options.expert_ranks == 1 && options.redundant_experts == 0) return ranks;
  if (ExpertLayers(config).empty() || files::InfoOf(config.architecture).encoder) {
    const char* const flag = options.expert_ranks > 1 ? "expert-ranks" : "redundant-experts";
    return InvalidArgument(StrCat("--", flag, ": the model has no experts; start without it"),
                           flag);
  }
  SLUICE_ASSIGN_OR_RETURN(ranks.shape, experts::ShapeOf(config.experts.count, options.expert_ranks,
                                                        options.redundant_experts));
  return ranks;
}

ExpertMover::ExpertMover(device::Device& device, model::Model& model, const ExpertRanks& ranks)
    : device_(device),
      model_(model),
      step_bytes_(ranks.step_bytes),
      balancer_({.shape = ranks.shape,
                 .layers = ExpertLayers(model.config()),
                 .groups = model.config().experts.groups,
                 .interval = ranks.interval,
                 .interval_text = ranks.interval_text}) {
  const std::vector<int>& layers = balancer_.options().layers;
  sent_.resize(layers.size());
  for (const int number : layers) {
    Layer& layer = layers_.emplace_back();
    for (const char* name : {"gate_up", "up", "down", "gate_up_bias", "down_bias"}) {
      const std::string parameter = StrCat("layers.", number, ".experts.", name);
      const weights::Parameter* const found = model.parameters().Find(parameter);
      if (found == nullptr) continue;
      layer.parameters.push_back(parameter);
      layer.memory.push_back(weights::SlotMemoryOf(*found));
      for (const weights::SlotMemory& part : layer.memory.back())
        layer.slot_bytes += part.slot_bytes;
    }
  }
}

size_t ExpertMover::DeviceBytes(const files::ModelConfig& config, int slots) {
  return device::AlignUp(
      MapBytes(ExpertLayers(config).size(), int64_t{config.experts.count} + 1 + slots));
}

Status ExpertMover::TakeMemory() {
  const auto layers = static_cast<int64_t>(layers_.size());
  const int64_t row = balancer_.options().shape.row();
  const size_t bytes = MapBytes(layers_.size(), row);
  SLUICE_ASSIGN_OR_RETURN(map_memory_, device_.Allocate(bytes, device::MemoryKind::kDevice));
  SLUICE_ASSIGN_OR_RETURN(staging_, device::AllocateStaging(device_, bytes));
  SLUICE_ASSIGN_OR_RETURN(passed_, device_.CreateEvent());
  maps_ = ops::Dense(map_memory_.view(), DType::kI32, {layers, row});
  return OkStatus();
}

Result<std::unique_ptr<ExpertMover>> ExpertMover::Make(device::Device& device, model::Model& model,
                                                       const ExpertRanks& ranks) {
  std::unique_ptr<ExpertMover> mover(new ExpertMover(device, model, ranks));
  SLUICE_RETURN_IF_ERROR(mover->TakeMemory());
  SLUICE_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  SLUICE_RETURN_IF_ERROR(mover->SendMaps(*stream));
  SLUICE_RETURN_IF_ERROR(stream->Synchronize());
  return mover;
}

void ExpertMover::EndCopies() {
  std::erase_if(moving_, [&](const Moving& moving) {
    const experts::SlotCopy& copy = moving.copy;
    const Layer& layer = layers_[static_cast<size_t>(copy.layer)];
    if (moving.done < layer.slot_bytes) return false;
    for (const std::string& parameter : layer.parameters) {
      model_.parameters().SetSlotExpert(parameter, copy.to, copy.expert);
    }
    balancer_.End(copy, layer.slot_bytes);
    return true;
  });
}

void ExpertMover::Continue(Moving* moving, size_t* budget) {
  size_t begin = 0;  // of a part, among all bytes of a slot
  for (const auto& parameter : layers_[static_cast<size_t>(moving->copy.layer)].memory) {
    for (const weights::SlotMemory& part : parameter) {
      const size_t end = begin + part.slot_bytes;
      const size_t count = moving->done < end ? std::min(end - moving->done, *budget) : 0;
      if (count > 0) {
        const size_t at = moving->done - begin;
        copies_.push_back(
            {part.Of(moving->copy.to, at, count), part.Of(moving->copy.from, at, count)});
        moving->done += count;
        *budget -= count;
      }
      begin = end;
    }
  }
}

Status ExpertMover::SendMaps(device::Stream& stream) {
  const experts::ExpertMap& map = balancer_.map();
  const auto row = static_cast<size_t>(map.shape().row());
  std::vector<device::CopyItem> items;
  for (int layer = 0; layer < map.layers(); ++layer) {
    uint64_t& sent = sent_[static_cast<size_t>(layer)];
    if (sent == map.version(layer)) continue;
    const size_t bytes = row * sizeof(int32_t), at = static_cast<size_t>(layer) * bytes;
    const device::View source = device::Part(staging_.view(), at, bytes);
    items.push_back({device::Part(map_memory_.view(), at, bytes), source});
    map.Write(layer, {reinterpret_cast<int32_t*>(source.data), row});
    sent = map.version(layer);
  }
  return items.empty() ? OkStatus() : device_.Copy(stream, items);
}

Status ExpertMover::Advance(device::Stream& stream, const experts::Loads& loads) {
  if (!lost_ && !balancer_.busy()) return OkStatus();
  // What an earlier call put on the stream reads staging_ until then.
  if (!passed_->Done()) return OkStatus();
  const uint64_t version = model_.parameters().version();
  if (lost_ || version != weights_version_) {
    for (Moving& moving : moving_) moving.done = 0;
  }
  if (std::exchange(lost_, false)) std::fill(sent_.begin(), sent_.end(), 0);
  weights_version_ = version;
  EndCopies();
  balancer_.PlanNext(loads);
  copies_.clear();
  size_t budget = step_bytes_;
  for (Moving& moving : moving_) Continue(&moving, &budget);
  while (budget > 0) {
    const auto copy = balancer_.Begin();
    if (!copy) break;
    Continue(&moving_.emplace_back(Moving{*copy}), &budget);
  }
  const Status status = [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(SendMaps(stream));
    if (!copies_.empty()) SLUICE_RETURN_IF_ERROR(device_.Copy(stream, copies_));
    return stream.Record(*passed_);
  }();
  if (!status.ok()) Lost();
  return status;
}

}  // namespace sluice::exec
