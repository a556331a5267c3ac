#include "experts/migration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace sluice::experts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What lies in the slots of one layer; a slot that is being written holds nothing of use.
constexpr int32_t kHalfWritten = -7;

class Bytes {
 public:
  explicit Bytes(const MapShape& shape) {
    for (int slot = 0; slot < shape.slots(); ++slot)
      slots_.push_back(FirstExpertOf(slot, shape.experts));
  }
  int32_t& operator[](int slot) { return slots_[static_cast<size_t>(slot)]; }

  // The map names no slot whose bytes are not that expert, and every expert can be found.
  void ExpectFound(const ExpertMap& map) const {
    map.CheckInvariants();
    const auto named = map.Slots(0);
    for (size_t slot = 0; slot < named.size(); ++slot) {
      if (named[slot] == ExpertMap::kNone) continue;
      ASSERT_EQ(slots_[slot], named[slot]) << "slot " << slot;
    }
    std::vector<int32_t> row(static_cast<size_t>(map.shape().row()));
    map.Write(0, row);
    const auto experts = static_cast<size_t>(map.shape().experts);
    for (size_t e = 0; e < experts; ++e) {
      ASSERT_LT(row[e], row[e + 1]);
      for (int32_t i = row[e]; i < row[e + 1]; ++i) {
        ASSERT_EQ(slots_[static_cast<size_t>(row[experts + 1 + static_cast<size_t>(i)])],
                  static_cast<int32_t>(e));
      }
    }
  }

 private:
  std::vector<int32_t> slots_;
};

// Any placement that CheckPlacement is fine with.
Placement AnyPlacement(const MapShape& shape, std::mt19937& random) {
  std::vector<double> loads(static_cast<size_t>(shape.experts));
  for (double& load : loads) load = std::uniform_real_distribution<double>(0, 1)(random);
  Placement placement =
      Plan(loads, {.ranks = shape.ranks, .replicas = shape.spare() - shape.experts});
  std::shuffle(placement.begin(), placement.end(), random);
  return placement;
}

int Wrong(const ExpertMap& map, const Placement& placement) {
  int wrong = 0;
  const Placement now = map.RanksOf(0);
  for (size_t r = 0; r < now.size(); ++r) {
    for (const int32_t expert : placement[r]) {
      if (std::find(now[r].begin(), now[r].end(), expert) == now[r].end()) ++wrong;
    }
  }
  return wrong;
}

TEST(Migration, NoSlotIsNamedWhileItsBytesAreOthers) {
  std::mt19937 random(11);
  const auto any = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int tried = 0;
  while (tried < 300) {
    const auto shape = ShapeOf(any(1, 40), any(1, 8), any(0, 10));
    if (!shape.ok()) continue;
    ++tried;
    ExpertMap map(*shape, 1);
    Migration migration(&map);
    Bytes bytes(*shape);
    for (int plan = 0; plan < 3; ++plan) {
      Placement placement = AnyPlacement(*shape, random);
      ASSERT_TRUE(CheckPlacement(placement, *shape, 0).ok());
      migration.Want(0, placement);
      const int most = 2 * Wrong(map, placement) + 1;
      int copies = 0;
      // Now and then something else is wanted half-way.
      const int changes_at = any(0, 3) == 0 ? any(0, 5) : -1;
      for (int rounds = 0; migration.Moves(0); ++rounds) {
        ASSERT_LT(rounds, 1000);
        const auto copy = migration.Begin(0);
        ASSERT_NO_FATAL_FAILURE(bytes.ExpectFound(map));
        if (!copy) continue;
        ASSERT_FALSE(migration.Begin(0)) << "one at a time";
        ASSERT_EQ(map.Slots(0)[static_cast<size_t>(copy->from)], copy->expert);
        bytes[copy->to] = kHalfWritten;
        ASSERT_NO_FATAL_FAILURE(bytes.ExpectFound(map));
        if (++copies == changes_at) migration.Want(0, placement = AnyPlacement(*shape, random));
        bytes[copy->to] = bytes[copy->from];
        migration.End(*copy);
        ASSERT_NO_FATAL_FAILURE(bytes.ExpectFound(map));
      }
      if (changes_at < 0) {
        EXPECT_LE(copies, most);
      }
      for (std::vector<int32_t>& held : placement) std::sort(held.begin(), held.end());
      EXPECT_EQ(map.RanksOf(0), placement);
      EXPECT_EQ(map.Slots(0)[static_cast<size_t>(shape->spare())], ExpertMap::kNone);
    }
  }
}

TEST(Migration, WhatIsAsWantedIsNotCopied) {
  const MapShape shape = *ShapeOf(4, 2, 2);
  ExpertMap map(shape, 2);
  Migration migration(&map);
  migration.Want(1, {{2, 0, 1}, {0, 1, 3}});
  EXPECT_FALSE(migration.Begin(1));
  EXPECT_FALSE(migration.Moves(1));
  EXPECT_EQ(map.version(), 1u);
  migration.Want(1, {{0, 1, 3}, {0, 1, 2}});
  EXPECT_TRUE(migration.Begin(1));
  EXPECT_FALSE(migration.Moves(0));
  EXPECT_EQ(map.version(0), 1u);
}

TEST(ExpertMap, RanksHoldTheirShareAtFirst) {
  const MapShape shape = *ShapeOf(4, 2, 2);
  const ExpertMap map(shape, 1);
  EXPECT_THAT(map.Slots(0), ElementsAre(0, 1, 2, 3, 0, 1, ExpertMap::kNone));
  EXPECT_THAT(map.RanksOf(0), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 1, 3)));
  std::vector<int32_t> row(static_cast<size_t>(shape.row()));
  map.Write(0, row);
  EXPECT_THAT(row, ElementsAre(0, 2, 4, 5, 6, 0, 4, 1, 5, 2, 3, -1));
}

TEST(ExpertMap, ShapesThatDoNotFitAreRefused) {
  const auto refused = [](int experts, int ranks, int redundant) {
    return std::string(ShapeOf(experts, ranks, redundant).status().message());
  };
  EXPECT_THAT(refused(8, 0, 0), HasSubstr("--expert-ranks is 0"));
  EXPECT_THAT(refused(8, 2, 9), HasSubstr("0 to the model's 8 experts"));
  EXPECT_THAT(refused(8, 1, 2), HasSubstr("give --expert-ranks"));
  EXPECT_THAT(refused(8, 3, 2), HasSubstr("--redundant-experts 4 would do"));
  EXPECT_THAT(refused(8, 16, 0), HasSubstr("--redundant-experts 8 would do"));
  EXPECT_THAT(refused(8, 24, 0), HasSubstr("give fewer ranks"));
  EXPECT_THAT(refused(8, 16, 8), IsEmpty());
}

TEST(ExpertMap, PlacementsThatLeaveSomethingOutAreRefused) {
  const MapShape shape = *ShapeOf(4, 2, 2);
  const auto refused = [&](const Placement& placement) {
    return std::string(CheckPlacement(placement, shape, 3).message());
  };
  EXPECT_THAT(refused({{0, 1, 2}, {0, 1, 3}}), IsEmpty());
  EXPECT_THAT(refused({{0, 1, 2}, {0, 1, 2}}),
              HasSubstr("layer 3 has no slot for expert 3; give every expert one"));
  EXPECT_THAT(refused({{0, 1, 2}, {0, 1, 3}, {}}),
              HasSubstr("rank 2, which is out of range: there are ranks 0 to 1"));
  EXPECT_THAT(refused({{0, 1, 2}}), HasSubstr("for 1 ranks but there are 2"));
  EXPECT_THAT(refused({{0, 1, 2}, {1, 3}}), HasSubstr("rank 1 of layer 3 has 2 experts but 3"));
  EXPECT_THAT(refused({{0, 1, 2}, {1, 3, 4}}), HasSubstr("there are experts 0 to 3"));
  EXPECT_THAT(refused({{0, 1, 2}, {1, 3, 3}}), HasSubstr("expert 3 twice"));
}

}  // namespace
}  // namespace sluice::experts
