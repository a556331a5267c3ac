#include "experts/expert_map.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::experts {

Result<MapShape> ShapeOf(int experts, int ranks, int redundant) {
  if (ranks < 1 || ranks > kRanksMax) {
    return InvalidArgument(StrCat("--expert-ranks is ", ranks, "; it can be 1 to ", kRanksMax),
                           "expert-ranks");
  }
  if (redundant < 0 || redundant > experts) {
    return InvalidArgument(StrCat("--redundant-experts is ", redundant,
                                  "; it can be 0 to the model's ", experts, " experts"),
                           "redundant-experts");
  }
  if (ranks == 1 && redundant > 0) {
    return InvalidArgument(StrCat("--redundant-experts ", redundant,
                                  " needs several ranks that share experts; give --expert-ranks"),
                           "redundant-experts");
  }
  const int all = experts + redundant;
  if (all % ranks != 0) {
    const int would = redundant + ranks - all % ranks;
    const std::string remedy =
        would <= experts ? StrCat("--redundant-experts ", would, " would do") : "give fewer ranks";
    return InvalidArgument(StrCat("--expert-ranks ", ranks, " cannot share ", experts,
                                  " experts and ", redundant, " redundant ones evenly; ", remedy),
                           "redundant-experts");
  }
  return MapShape{experts, ranks, all / ranks};
}

Status CheckPlacement(const Placement& placement, const MapShape& shape, int layer) {
  const int ranks = static_cast<int>(placement.size());
  if (ranks > shape.ranks) {
    return InvalidArgument(
        StrCat("layer ", layer, " has experts for rank ", shape.ranks,
               ", which is out of range: there are ranks 0 to ", shape.ranks - 1),
        "ranks");
  }
  if (ranks < shape.ranks) {
    return InvalidArgument(StrCat("layer ", layer, " has experts for ", ranks,
                                  " ranks but there are ", shape.ranks, "; give all of them"),
                           "ranks");
  }
  std::vector<bool> placed(static_cast<size_t>(shape.experts));
  for (int r = 0; r < ranks; ++r) {
    const std::vector<int32_t>& held = placement[static_cast<size_t>(r)];
    if (static_cast<int>(held.size()) != shape.slots_per_rank) {
      return InvalidArgument(
          StrCat("rank ", r, " of layer ", layer, " has ", held.size(), " experts but ",
                 shape.slots_per_rank, " slots; give as many experts"),
          "ranks");
    }
    std::vector<bool> here(placed.size());
    for (const int32_t expert : held) {
      if (expert < 0 || expert >= shape.experts) {
        return InvalidArgument(StrCat("rank ", r, " of layer ", layer, " has expert ", expert,
                                      "; there are experts 0 to ", shape.experts - 1),
                               "ranks");
      }
      if (here[static_cast<size_t>(expert)]) {
        return InvalidArgument(StrCat("rank ", r, " of layer ", layer, " has expert ", expert,
                                      " twice; a second copy belongs on another rank"),
                               "ranks");
      }
      here[static_cast<size_t>(expert)] = placed[static_cast<size_t>(expert)] = true;
    }
  }
  const auto missing = std::find(placed.begin(), placed.end(), false);
  if (missing == placed.end()) return OkStatus();
  return InvalidArgument(StrCat("layer ", layer, " has no slot for expert ",
                                missing - placed.begin(), "; give every expert one"),
                         "ranks");
}

ExpertMap::ExpertMap(const MapShape& shape, int layers)
    : shape_(shape),
      slots_(static_cast<size_t>(layers) * static_cast<size_t>(shape.slots()), kNone),
      copies_(static_cast<size_t>(layers) * static_cast<size_t>(shape.experts)),
      versions_(static_cast<size_t>(layers), 1) {
  for (int layer = 0; layer < layers; ++layer) {
    for (int slot = 0; slot < shape.spare(); ++slot) {
      At(layer, slot) = FirstExpertOf(slot, shape.experts);
      ++CopiesOf(layer, At(layer, slot));
    }
  }
}

std::span<const int32_t> ExpertMap::Slots(int layer) const {
  const auto slots = static_cast<size_t>(shape_.slots());
  return std::span(slots_).subspan(static_cast<size_t>(layer) * slots, slots);
}

int ExpertMap::Copies(int layer, int32_t expert) const {
  return copies_[static_cast<size_t>(layer) * static_cast<size_t>(shape_.experts) +
                 static_cast<size_t>(expert)];
}

int ExpertMap::SlotOf(int layer, int32_t expert) const {
  const auto slots = Slots(layer);
  const auto found = std::find(slots.begin(), slots.end(), expert);
  CHECK(found != slots.end(), "expert ", expert, " of layer ", layer, " lies nowhere");
  return static_cast<int>(found - slots.begin());
}

Placement ExpertMap::RanksOf(int layer) const {
  Placement ranks(static_cast<size_t>(shape_.ranks));
  const auto slots = Slots(layer);
  for (int slot = 0; slot < shape_.spare(); ++slot) {
    const int32_t expert = slots[static_cast<size_t>(slot)];
    if (expert != kNone) ranks[static_cast<size_t>(slot / shape_.slots_per_rank)].push_back(expert);
  }
  for (std::vector<int32_t>& held : ranks) std::sort(held.begin(), held.end());
  return ranks;
}

void ExpertMap::Write(int layer, std::span<int32_t> row) const {
  CHECK(static_cast<int>(row.size()) == shape_.row(), row.size(), " numbers for ", shape_.row());
  const auto slots = Slots(layer);
  int32_t count = 0;
  const size_t list = static_cast<size_t>(shape_.experts) + 1;
  std::fill(row.begin(), row.end(), kNone);
  for (int32_t expert = 0; expert < shape_.experts; ++expert) {
    row[static_cast<size_t>(expert)] = count;
    count += Copies(layer, expert);
  }
  row[list - 1] = count;
  std::vector<int32_t> next(row.begin(), row.begin() + shape_.experts);
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot] == kNone) continue;
    const auto place = static_cast<size_t>(next[static_cast<size_t>(slots[slot])]++);
    row[list + place] = static_cast<int32_t>(slot);
  }
}

void ExpertMap::Changed(int layer) {
  ++versions_[static_cast<size_t>(layer)];
  ++version_;
}

void ExpertMap::Drop(int layer, int slot) {
  int32_t& held = At(layer, slot);
  CHECK(held != kNone && Copies(layer, held) > 1, "slot ", slot, " of layer ", layer,
        " is the only one of expert ", held);
  --CopiesOf(layer, held);
  held = kNone;
  Changed(layer);
}

void ExpertMap::Name(int layer, int slot, int32_t expert) {
  CHECK(At(layer, slot) == kNone, "slot ", slot, " of layer ", layer, " is named");
  At(layer, slot) = expert;
  ++CopiesOf(layer, expert);
  Changed(layer);
}

void ExpertMap::CheckInvariants() const {
  for (int layer = 0; layer < layers(); ++layer) {
    const auto slots = Slots(layer);
    for (int32_t expert = 0; expert < shape_.experts; ++expert) {
      const auto named = std::count(slots.begin(), slots.end(), expert);
      CHECK(named > 0 && named == Copies(layer, expert), "expert ", expert, " of layer ", layer,
            " has ", named, " slots, counted as ", Copies(layer, expert));
    }
  }
}

}  // namespace sluice::experts
