#include "ops/map_experts.h"

#include <gmock/gmock.h>

#include <set>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class MapExpertsTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(MapExpertsTest);

// Expert 0 lies in slots 4 and 1, expert 1 in slot 0, expert 2 in slot 3; slot 2 is nobody's.
constexpr MapExperts::Desc kDesc = {.experts = 3, .slots = 5, .top_k = 2};
Array Map() { return Array::Ints({9}, {0, 2, 3, 4, 4, 1, 0, 3, -1}); }

TEST_P(MapExpertsTest, TokensTakeSlotsByThemselvesAlone) {
  Array map = Map();
  Array tokens = Array::Ints({40}, std::vector<int32_t>(40, 7)), positions(DType::kI32, {40});
  Array ids(DType::kI32, {40, 2}), counts = Array::Ints({3}, {5, 0, 0});
  for (size_t t = 0; t < 40; ++t) {
    positions.Int(t) = static_cast<int32_t>(t);
    ids.Int(2 * t) = 0;
    ids.Int(2 * t + 1) = t % 2 == 0 ? 1 : 2;
  }
  Array counted = Array::Ints({1}, {30});
  ASSERT_TRUE(Run<MapExperts>(kDesc, {.token_ids = tokens.tensor(),
                                      .positions = positions.tensor(),
                                      .map = map.tensor(),
                                      .ids = ids.tensor(),
                                      .counts = counts.tensor(),
                                      .counted = counted.tensor()})
                  .ok());
  EXPECT_EQ(counts, Array::Ints({3}, {35, 15, 15}));
  std::set<int32_t> taken;
  for (size_t t = 0; t < 40; ++t) {
    taken.insert(ids.Int(2 * t));
    EXPECT_EQ(ids.Int(2 * t + 1), t % 2 == 0 ? 0 : 3);
  }
  EXPECT_EQ(taken, (std::set<int32_t>{1, 4}));
  // The token at position 17 alone takes what it took among others.
  Array one = Array::Ints({1}, {7}), at = Array::Ints({1}, {17}),
        choice = Array::Ints({1, 2}, {0, 2});
  ASSERT_TRUE(Run<MapExperts>(kDesc, {.token_ids = one.tensor(),
                                      .positions = at.tensor(),
                                      .map = map.tensor(),
                                      .ids = choice.tensor()})
                  .ok());
  EXPECT_EQ(choice.Int(0), ids.Int(34));
}

TEST_P(MapExpertsTest, WhatIsWrongIsNamed) {
  Array token = Array::Ints({1}, {7}), ids = Array::Ints({1, 2}, {0, 1});
  const auto run = [&](Array map) {
    return Run<MapExperts>(kDesc, {.token_ids = token.tensor(),
                                   .positions = token.tensor(),
                                   .map = map.tensor(),
                                   .ids = ids.tensor()})
        .message();
  };
  EXPECT_THAT(run(Array::Ints({8}, {0, 2, 3, 4, 4, 1, 0, 3})), HasSubstr("map is I32 [8]"));
  EXPECT_THAT(run(Array::Ints({9}, {0, 2, 2, 4, 4, 1, 0, 3, -1})),
              HasSubstr("expert 1 has the slots 2 to 2"));
  EXPECT_THAT(run(Array::Ints({9}, {0, 2, 3, 4, 4, 5, 0, 3, -1})), HasSubstr("map"));
  EXPECT_THAT(RefMapExpertsSupports({.experts = 4, .slots = 3, .top_k = 1}, {}).reason,
              HasSubstr("4 experts in 3 slots"));
}

}  // namespace
}  // namespace sluice::ops
