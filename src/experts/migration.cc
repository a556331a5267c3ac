#include "experts/migration.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::experts {

Migration::Migration(ExpertMap* map) : map_(*map), layers_(static_cast<size_t>(map->layers())) {}

void Migration::Want(int layer, const Placement& placement) {
  const MapShape& shape = map_.shape();
  const auto slots = map_.Slots(layer);
  std::vector<int32_t>& target = layers_[static_cast<size_t>(layer)].target;
  target.assign(static_cast<size_t>(shape.spare()), ExpertMap::kNone);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<int32_t> coming = placement[static_cast<size_t>(rank)];
    const int begin = rank * shape.slots_per_rank, end = begin + shape.slots_per_rank;
    for (int slot = begin; slot < end; ++slot) {
      const auto stays = std::find(coming.begin(), coming.end(), slots[static_cast<size_t>(slot)]);
      if (stays == coming.end()) continue;
      target[static_cast<size_t>(slot)] = *stays;
      coming.erase(stays);
    }
    size_t next = 0;
    for (int slot = begin; slot < end; ++slot) {
      int32_t& wanted = target[static_cast<size_t>(slot)];
      if (wanted == ExpertMap::kNone) wanted = coming[next++];
    }
  }
}

bool Migration::IsRight(int layer) const {
  const std::vector<int32_t>& target = layers_[static_cast<size_t>(layer)].target;
  return std::equal(target.begin(), target.end(), map_.Slots(layer).begin());
}

bool Migration::Moves(int layer) const {
  const Layer& own = layers_[static_cast<size_t>(layer)];
  return own.copies || !own.target.empty();
}

int Migration::Writable(int layer) const {
  const std::vector<int32_t>& target = layers_[static_cast<size_t>(layer)].target;
  const auto slots = map_.Slots(layer);
  for (size_t slot = 0; slot < target.size(); ++slot) {
    if (slots[slot] == target[slot]) continue;
    if (slots[slot] == ExpertMap::kNone || map_.Copies(layer, slots[slot]) > 1) {
      return static_cast<int>(slot);
    }
  }
  return -1;
}

std::optional<SlotCopy> Migration::Begin(int layer) {
  Layer& own = layers_[static_cast<size_t>(layer)];
  if (own.copies || own.target.empty()) return std::nullopt;
  const int spare = map_.shape().spare();
  const auto slots = map_.Slots(layer);
  const bool spare_taken = slots[static_cast<size_t>(spare)] != ExpertMap::kNone;
  if (IsRight(layer)) {
    if (spare_taken) map_.Drop(layer, spare);
    own.target.clear();
    return std::nullopt;
  }
  own.copies = true;
  const int slot = Writable(layer);
  if (slot >= 0) {
    const auto at = static_cast<size_t>(slot);
    if (slots[at] != ExpertMap::kNone) map_.Drop(layer, slot);
    return SlotCopy{layer, own.target[at], map_.SlotOf(layer, own.target[at]), slot};
  }
  // Every expert that is in the way lies there alone, so that of the spare lies where it should as
  // well: were it in the spare alone, another one would have more copies than it should.
  if (spare_taken) map_.Drop(layer, spare);
  const auto wrong = std::mismatch(own.target.begin(), own.target.end(), slots.begin()).second;
  return SlotCopy{layer, *wrong, static_cast<int>(wrong - slots.begin()), spare};
}

void Migration::End(const SlotCopy& copy) {
  Layer& own = layers_[static_cast<size_t>(copy.layer)];
  CHECK(own.copies, "no copy of layer ", copy.layer, " is under way");
  own.copies = false;
  map_.Name(copy.layer, copy.to, copy.expert);
}

}  // namespace sluice::experts
