#include "ops/top_k.h"

#include <gmock/gmock.h>

#include <limits>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TopKTest : public OpTest {
 protected:
  // The positions that a row with these scores takes, of which it has the first `length`.
  std::vector<int32_t> Take(int k, const std::vector<float>& scores, int length) {
    Array from = Array::Floats(DType::kF32, {1, static_cast<int64_t>(scores.size())}, scores);
    Array lengths = Array::Ints({length}), positions(DType::kI32, {1, k});
    const Status status = Run<TopK>(
        {k},
        {.scores = from.tensor(), .lengths = lengths.tensor(), .positions = positions.tensor()});
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<int32_t> taken;
    for (int i = 0; i < k; ++i) taken.push_back(positions.Int(static_cast<size_t>(i)));
    return taken;
  }
};
SLUICE_FOR_EACH_INSTRUCTION_SET(TopKTest);

TEST_P(TopKTest, TheLargestInTheOrderOfTheirPositions) {
  EXPECT_THAT(Take(3, {1, -9, 8, 2, 9, 0.5f}, 6), ElementsAre(2, 3, 4));
  EXPECT_THAT(Take(3, {1, -9, 8, 2, 9, 0.5f}, 4), ElementsAre(0, 2, 3)) << "of the first four";
  EXPECT_THAT(Take(2, {-3, -1, -2}, 3), ElementsAre(1, 2));
}

TEST_P(TopKTest, ARowWithFewerTakesAll) {
  EXPECT_THAT(Take(4, {1, 2, 3, 4, 5}, 3), ElementsAre(0, 1, 2, -1));
  EXPECT_THAT(Take(2, {1, 2}, 2), ElementsAre(0, 1));
  EXPECT_THAT(Take(2, {1, 2}, 1), ElementsAre(0, -1));
  EXPECT_THAT(Take(1, {1, 2}, 1), ElementsAre(0));
  EXPECT_THAT(Take(2, {1, 2}, 0), ElementsAre(-1, -1)) << "padding";
}

TEST_P(TopKTest, OfEqualScoresTheLowerPosition) {
  EXPECT_THAT(Take(3, {5, 7, 5, 5, 7}, 5), ElementsAre(0, 1, 4));
  EXPECT_THAT(Take(2, {-0.0f, 0.0f, -0.0f}, 3), ElementsAre(0, 1)) << "zeros are equal";
  EXPECT_THAT(Take(1, {0.0f, -0.0f}, 2), ElementsAre(0));
}

TEST_P(TopKTest, ANanIsBelowAll) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Take(2, {nan, -inf, nan, 3}, 4), ElementsAre(1, 3));
  EXPECT_THAT(Take(3, {nan, -inf, nan, inf}, 4), ElementsAre(0, 1, 3));
}

// As many as a long context has, most of them equal to the least that is taken.
TEST_P(TopKTest, LongRowsOfEqualScores) {
  std::vector<float> scores(70001);
  for (size_t p = 0; p < scores.size(); ++p)
    scores[p] = p % 100 == 99 ? 2.0f : p % 7 == 0 ? 1.0f : -1.0f;
  std::vector<int32_t> expected;
  int ones = 2048 - 700;
  for (int32_t p = 0; p < 70001; ++p) {
    const float score = scores[static_cast<size_t>(p)];
    if (score == 2.0f || (score == 1.0f && ones-- > 0)) expected.push_back(p);
  }
  EXPECT_EQ(Take(2048, scores, 70001), expected);
}

TEST_P(TopKTest, LengthsAreChecked) {
  Array from(DType::kF32, {1, 3}), lengths = Array::Ints({4}), positions(DType::kI32, {1, 2});
  const TopK::Args args = {
      .scores = from.tensor(), .lengths = lengths.tensor(), .positions = positions.tensor()};
  EXPECT_THAT(Run<TopK>({2}, args).message(), HasSubstr("lengths[0] is 4"));
  EXPECT_THAT(RefTopKSupports({0}, {}).reason, HasSubstr("k is 0"));
}

}  // namespace
}  // namespace sluice::ops
