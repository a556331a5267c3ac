// ExpertMap: where the experts of a model's layers lie. A layer has slots of equal size, as many
// for each rank, side by side; an expert lies in one or more of them. Behind them stands one more,
// the spare, that experts lie in on their way from slot to slot. The map names the slots that
// tokens are sent to; a slot that is being written is not named. Every change of a layer gives it,
// and the whole, a new version. Not thread-safe; no device.
//
// Invariants, which CheckInvariants tells: every expert has a slot that is named; the counts of
// copies are right.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experts/planner.h"

namespace sluice::experts {

struct MapShape {
  int experts = 0;
  int ranks = 1;
  int slots_per_rank = 0;

  int spare() const { return ranks * slots_per_rank; }
  int slots() const { return spare() + 1; }
  // Numbers of a layer as ops::MapExperts reads them.
  int row() const { return experts + 1 + slots(); }
};

// Of `experts` experts with `redundant` copies beyond the first of each. kInvalidArgument with one
// sentence where ranks cannot hold equally many of them.
Result<MapShape> ShapeOf(int experts, int ranks, int redundant);

// What a slot holds when a model has been loaded: its rank's share of the experts in their order,
// from the first one again behind the last.
inline int32_t FirstExpertOf(int slot, int experts) { return slot % experts; }

// kInvalidArgument with one sentence unless every rank has as many experts as it has slots, none of
// them twice, and every expert has a rank. `layer`: its number, for the sentence.
Status CheckPlacement(const Placement& placement, const MapShape& shape, int layer);

class ExpertMap {
 public:
  static constexpr int32_t kNone = -1;

  // All slots but the spare are named. `layers`: how many.
  ExpertMap(const MapShape& shape, int layers);

  const MapShape& shape() const { return shape_; }
  int layers() const { return static_cast<int>(versions_.size()); }
  // By slot, the expert that tokens find there; kNone: they are not sent there.
  std::span<const int32_t> Slots(int layer) const;
  uint64_t version() const { return version_; }  // from 1 on
  uint64_t version(int layer) const { return versions_[static_cast<size_t>(layer)]; }
  // Slots that are named for the expert.
  int Copies(int layer, int32_t expert) const;
  // One of them.
  int SlotOf(int layer, int32_t expert) const;
  // The experts of each rank, ascending; a slot that is not named is left out.
  Placement RanksOf(int layer) const;
  // The numbers that ops::MapExperts reads. REQUIRES: `row` has shape().row().
  void Write(int layer, std::span<int32_t> row) const;

  // Tokens are not sent to the slot any more. REQUIRES: its expert has another copy.
  void Drop(int layer, int slot);
  // The slot's bytes are those of the expert. REQUIRES: it is not named.
  void Name(int layer, int slot, int32_t expert);

  void CheckInvariants() const;

 private:
  int32_t& At(int layer, int slot) {
    return slots_[static_cast<size_t>(layer) * static_cast<size_t>(shape_.slots()) +
                  static_cast<size_t>(slot)];
  }
  int32_t& CopiesOf(int layer, int32_t expert) {
    return copies_[static_cast<size_t>(layer) * static_cast<size_t>(shape_.experts) +
                   static_cast<size_t>(expert)];
  }
  void Changed(int layer);

  const MapShape shape_;
  std::vector<int32_t> slots_;   // [layers, slots]
  std::vector<int32_t> copies_;  // [layers, experts]
  std::vector<uint64_t> versions_;
  uint64_t version_ = 1;
};

}  // namespace sluice::experts
