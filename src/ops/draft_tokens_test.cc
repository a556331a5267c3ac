#include "ops/draft_tokens.h"

#include <gmock/gmock.h>

#include <cstring>

#include "ops/op_fixture.h"
#include "ops/sample_row.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A verify step of four tokens at position 7 whose second draft was wrong, a chunk of a prompt, a
// sequence that fills up, and a token of padding.
struct DraftStep {
  Array token_ids = Array::Ints({10, 11, 12, 13, 20, 21, 99});
  Array query_start = Array::Ints({0, 4, 6, 6}), positions = Array::Ints({7, 8, 9, 10, 3, 4, 0});
  Array slots = Array::Ints({1, 0, -1}), next = Array::Ints({-1, 22, -1});
  Array drafting = Array::Ints({0, -1});
  Array lengths = Array::Ints({50, 9}), known = Array::Ints({2, 3}, {5, 6, 7, 31, 32, 33});
  Array ids = Array::Ints({-5, -5, -5, -5, -5, -5, -5});
  Array rows = Array::Ints({-5, -5}), first = Array::Ints({-5, -5});
  NextTokens::Args args() {
    return {.token_ids = token_ids.tensor(),
            .query_start = query_start.tensor(),
            .positions = positions.tensor(),
            .slots = slots.tensor(),
            .next = next.tensor(),
            .drafting = drafting.tensor(),
            .lengths = lengths.tensor(),
            .known = known.tensor(),
            .ids = ids.tensor(),
            .rows = rows.tensor(),
            .first = first.tensor()};
  }
};

class DraftTokensTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(DraftTokensTest);

TEST_P(DraftTokensTest, WhatWasDrawnStandsBehindTheLastTokenThatCounts) {
  DraftStep step;
  const Status status = Run<NextTokens>({}, step.args());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(Ints(step.ids), ElementsAre(11, 31, 31, 31, 21, 22, 0));
  EXPECT_THAT(Ints(step.rows), ElementsAre(1, 0));
  EXPECT_THAT(Ints(step.first), ElementsAre(9, 0));
}

// As behind a step that failed.
TEST_P(DraftTokensTest, ALengthThatIsNoneOfTheStepIsTakenForTheNearest) {
  for (const int length : {-3, 900}) {
    DraftStep step;
    step.lengths = Array::Ints({50, length});
    ASSERT_TRUE(Run<NextTokens>({}, step.args()).ok());
    EXPECT_THAT(Ints(step.rows), ElementsAre(length < 0 ? 0 : 3, 0));
    EXPECT_THAT(Ints(step.first), ElementsAre(length < 0 ? 8 : 11, 0));
  }
}

TEST_P(DraftTokensTest, GuessesGoToTheirSlotsAndOn) {
  Array outputs(DType::kU8, {3, int64_t{sizeof(SampleOutput)}});
  for (int d = 0; d < 3; ++d) outputs.tensor().ptr<SampleOutput>()[d].token = 70 + d;
  Array slots = Array::Ints({1, -1, 0}), known = Array::Ints({2, 3}, {5, 6, 7, 31, 32, 33});
  Array ids = Array::Ints({-5, -5, -5}), first = Array::Ints({9, 0, 4});
  KeepGuesses::Args args = {.outputs = outputs.tensor(),
                            .slots = slots.tensor(),
                            .known = known.tensor(),
                            .ids = ids.tensor(),
                            .first = first.tensor()};
  ASSERT_TRUE(Run<KeepGuesses>({}, args).ok());
  EXPECT_THAT(Ints(known), ElementsAre(5, 72, 7, 31, 70, 33));
  EXPECT_THAT(Ints(ids), ElementsAre(70, 0, 72));
  EXPECT_THAT(Ints(first), ElementsAre(9, 0, 4));
  args.number = 2;
  args.moved = 1;
  ASSERT_TRUE(Run<KeepGuesses>({}, args).ok());
  EXPECT_THAT(Ints(known), ElementsAre(5, 72, 72, 31, 70, 70));
  EXPECT_THAT(Ints(first), ElementsAre(10, 0, 5));
  args.number = 3;
  EXPECT_THAT(Run<KeepGuesses>({}, args).message(), HasSubstr("guess 3 of 2"));
}

TEST_P(DraftTokensTest, GuessesOfAVocabularyOfTheirOwnBecomeTheModelsIds) {
  Array outputs(DType::kU8, {3, int64_t{sizeof(SampleOutput)}});
  for (int d = 0; d < 3; ++d) outputs.tensor().ptr<SampleOutput>()[d].token = d;
  Array slots = Array::Ints({0, 1, 2}), known(DType::kI32, {3, 2}), first = Array::Ints({9, 9, 9});
  Array ids = Array::Ints({-5, -5, -5}), target_ids = Array::Ints({40, 7});
  const Status status = Run<KeepGuesses>({}, {.outputs = outputs.tensor(),
                                              .slots = slots.tensor(),
                                              .target_ids = target_ids.tensor(),
                                              .known = known.tensor(),
                                              .ids = ids.tensor(),
                                              .first = first.tensor()});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(Ints(ids), ElementsAre(40, 7, 0));  // the third is none of them
  EXPECT_EQ(known.Int(1), 40);
  EXPECT_EQ(known.Int(3), 7);
}

}  // namespace
}  // namespace sluice::ops
