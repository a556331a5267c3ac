// Migration: which copies bring experts from the slots they lie in to those they should lie in, so
// that every expert can be found all the time. It says what to copy and is told when that is done;
// who copies is exec (exec/expert_mover.h). Not thread-safe; no device.
//
// A slot is written only while the map doesn't name it: one whose expert has another copy is
// dropped from the map first, and where none has, an expert is copied into the layer's spare slot.
// A slot that holds what it should is never written, so there are at most as many copies as slots
// that don't, and one more for each time that the spare is used.
#pragma once

#include <optional>
#include <vector>

#include "experts/expert_map.h"

namespace sluice::experts {

// The expert's bytes are to be copied from a slot that the map names to one that it doesn't.
struct SlotCopy {
  int layer = 0;  // by index
  int32_t expert = 0;
  int from = 0, to = 0;
};

class Migration {
 public:
  // `map` must outlive it, and nobody else changes it.
  explicit Migration(ExpertMap* map);

  // From now on the layer is brought to `placement`, whatever was wanted before; experts stay where
  // they are within a rank that keeps them. A copy that has begun is ended nevertheless. REQUIRES:
  // CheckPlacement is fine with it.
  void Want(int layer, const Placement& placement);
  // What is to be copied in this layer next; nothing: it is as wanted, or one copy of it is under
  // way. Changes the map.
  std::optional<SlotCopy> Begin(int layer);
  // The bytes are there. Changes the map. REQUIRES: Begin gave it.
  void End(const SlotCopy& copy);

  // Whether something is left to do in the layer, or under way.
  bool Moves(int layer) const;

 private:
  struct Layer {
    std::vector<int32_t> target;  // by slot but the spare; empty: as it is
    bool copies = false;          // one is under way
  };
  // A slot that is to hold another expert and that tokens can do without; -1: there is none.
  int Writable(int layer) const;
  bool IsRight(int layer) const;

  ExpertMap& map_;
  std::vector<Layer> layers_;
};

}  // namespace sluice::experts
