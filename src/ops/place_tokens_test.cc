#include "ops/place_tokens.h"

#include <gmock/gmock.h>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two sequences in blocks of four tokens and one that fills up: one token at position 9 in slot 2,
// two at position 3 in slot 0, and two tokens of padding.
struct PlaceStep {
  Array query_start = Array::Ints({0, 1, 3, 3}), first = Array::Ints({9, 3, 0});
  Array unsure = Array::Ints({0, 0, 0});
  Array slots = Array::Ints({2, 0, -1});
  Array lengths = Array::Ints({7, -1, 5});
  Array told_start = Array::Ints({0, 1, 3, 3}), told_first = Array::Ints({2, 0, 0});
  Array told = Array::Ints({30, 40, 41, 99});
  Array tables = Array::Ints({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 22, 23});
  Array positions = Array::Ints({-5, -5, -5, -5, -5}), context = Array::Ints({-5, -5, -5});
  Array kv_slots = Array::Ints({-5, -5, -5, -5, -5});
  Array block_table = Array::Ints({3, 3}, {-5, -5, -5, -5, -5, -5, -5, -5, -5});
  PlaceTokens::Args args() {
    return {.query_start = query_start.tensor(),
            .first = first.tensor(),
            .unsure = unsure.tensor(),
            .slots = slots.tensor(),
            .lengths = lengths.tensor(),
            .told_start = told_start.tensor(),
            .told_first = told_first.tensor(),
            .told = told.tensor(),
            .tables = tables.tensor(),
            .positions = positions.tensor(),
            .context = context.tensor(),
            .kv_slots = kv_slots.tensor(),
            .block_table = block_table.tensor()};
  }
};

class PlaceTokensTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(PlaceTokensTest);

TEST_P(PlaceTokensTest, WhatIsToldIsKeptAndTokensStandInTheBlocksOfTheirSlot) {
  PlaceStep step;
  const Status status = Run<PlaceTokens>({.block_tokens = 4, .cache_block_tokens = 4}, step.args());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(Ints(step.tables), ElementsAre(40, 41, 3, 4, 5, 6, 7, 8, 20, 21, 30, 23));
  EXPECT_THAT(Ints(step.positions), ElementsAre(9, 3, 4, 0, 0));
  EXPECT_THAT(Ints(step.context), ElementsAre(10, 5, 0));
  EXPECT_THAT(Ints(step.kv_slots), ElementsAre(30 * 4 + 1, 40 * 4 + 3, 41 * 4, -1, -1));
  EXPECT_THAT(Ints(step.block_table), ElementsAre(20, 21, 30, 40, 41, -5, -5, -5, -5));
}

TEST_P(PlaceTokensTest, ASequenceMayStandWhereItsSlotKnowsWithinBounds) {
  PlaceStep step;
  step.unsure = Array::Ints({4, 0, 0});  // 5 to 9, and 5 it is
  ASSERT_TRUE(
      Run<PlaceTokens>({.block_tokens = 4, .cache_block_tokens = 4, .earlier = 1}, step.args())
          .ok());
  EXPECT_THAT(Ints(step.positions), ElementsAre(5, 3, 4, 0, 0));
  EXPECT_THAT(Ints(step.context), ElementsAre(6, 5, 0));
  EXPECT_THAT(Ints(step.kv_slots), ElementsAre(21 * 4 + 1, 40 * 4 + 3, 41 * 4, -1, -1));
  EXPECT_THAT(Ints(step.block_table), ElementsAre(-1, 21, -5, 40, 41, -5, -5, -5, -5));
  for (const auto& [length, position] : {std::pair(-9, 6), std::pair(6, 6), std::pair(99, 9)}) {
    PlaceStep bound;
    bound.unsure = Array::Ints({3, 0, 0});
    bound.lengths = Array::Ints({0, 0, length});
    ASSERT_TRUE(Run<PlaceTokens>({.block_tokens = 4, .cache_block_tokens = 4}, bound.args()).ok());
    EXPECT_THAT(Ints(bound.positions), ElementsAre(position, 3, 4, 0, 0)) << length;
  }
}

// A step at position 9 that reads four earlier positions needs none of the first block.
TEST_P(PlaceTokensTest, BlocksThatAStepDoesNotReadAreNotGivenOut) {
  PlaceStep step;
  ASSERT_TRUE(
      Run<PlaceTokens>({.block_tokens = 4, .cache_block_tokens = 4, .earlier = 4}, step.args())
          .ok());
  EXPECT_THAT(Ints(step.block_table), ElementsAre(-1, 21, 30, 40, 41, -5, -5, -5, -5));
  EXPECT_THAT(Ints(step.tables), ElementsAre(40, 41, 3, 4, 5, 6, 7, 8, 20, 21, 30, 23));
  PlaceStep wider;  // blocks go in pairs
  ASSERT_TRUE(
      Run<PlaceTokens>({.block_tokens = 4, .cache_block_tokens = 8, .earlier = 4}, wider.args())
          .ok());
  EXPECT_THAT(Ints(wider.block_table), ElementsAre(20, 21, 30, 40, 41, -5, -5, -5, -5));
}

TEST_P(PlaceTokensTest, AStateIsFoundByItsTableAlone) {
  PlaceStep step;
  ASSERT_TRUE(
      Run<PlaceTokens>({.block_tokens = 4, .cache_block_tokens = 4, .earlier = 1, .state = true},
                       step.args())
          .ok());
  EXPECT_THAT(Ints(step.kv_slots), ::testing::Each(-1));
  EXPECT_THAT(Ints(step.block_table), ElementsAre(-1, -1, 30, 40, 41, -5, -5, -5, -5));
}

TEST_P(PlaceTokensTest, ATokenWhoseBlockIsMissingIsWrittenNowhere) {
  PlaceStep step;
  step.told = Array::Ints({-1, 40, -1, 99});
  ASSERT_TRUE(Run<PlaceTokens>({.block_tokens = 4, .cache_block_tokens = 4}, step.args()).ok());
  EXPECT_THAT(Ints(step.kv_slots), ElementsAre(-1, 40 * 4 + 3, -1, -1, -1));
}

TEST_P(PlaceTokensTest, WrongArgumentsNameWhatIsWrong) {
  const PlaceTokens::Desc desc = {.block_tokens = 4, .cache_block_tokens = 4};
  PlaceStep step;
  PlaceTokens::Args args = step.args();
  args.tables = args.tables.Columns(0, 2);
  EXPECT_THAT(Run<PlaceTokens>(desc, args).message(), HasSubstr("block_table has 3 columns"));
  args = step.args();
  args.told_first = args.told_first.Rows(0, 2);
  EXPECT_THAT(Run<PlaceTokens>(desc, args).message(), HasSubstr("told_first"));
  EXPECT_THAT(Run<PlaceTokens>({.block_tokens = 4, .cache_block_tokens = 6}, step.args()).message(),
              HasSubstr("do not make up 6"));
}

}  // namespace
}  // namespace sluice::ops
