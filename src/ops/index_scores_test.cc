#include "ops/index_scores.h"

#include <gmock/gmock.h>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class IndexScoresTest : public OpTest {
 protected:
  IndexScoresTest() {
    desc_ = {.heads = 2, .head_dim = 16, .scale = 0.5f};
    desc_.kv = {DType::kF32, 1, 16, 0, 4};
    // The key of position p of the second sequence is p in its first number and -1 in its second.
    for (int p = 0; p < 6; ++p) {
      const auto at = static_cast<size_t>((table_.Int(2 + p / 4) * 4 + p % 4) * 16);
      k_.Set(at, static_cast<float>(p));
      k_.Set(at + 1, -1.0f);
    }
    scores_.Fill(-7.0f);
  }
  // Of `rows` rows from number `first` on.
  IndexScores::Args Args(int64_t first, int64_t rows) {
    IndexScores::Args args{.q = q_.tensor().Rows(first, rows),
                           .weights = weights_.tensor().Rows(first, rows),
                           .first_row = first,
                           .query_start = start_.tensor(),
                           .context = context_.tensor(),
                           .block_table = table_.tensor()};
    args.kv.k = k_.tensor();
    args.scores = scores_.tensor().Rows(0, rows);
    args.lengths = lengths_.tensor().Rows(0, rows);
    return args;
  }

  IndexScores::Desc desc_;
  Array q_{DType::kF32, {4, 32}}, weights_{DType::kF32, {4, 2}}, k_{DType::kF32, {4, 1, 4, 16}};
  Array scores_{DType::kF32, {4, 8}}, lengths_{DType::kI32, {4}};
  Array start_ = Array::Ints({0, 1, 3}), context_ = Array::Ints({1, 6});
  Array table_ = Array::Ints({2, 2}, {3, -1, 2, 0});
};
SLUICE_FOR_EACH_INSTRUCTION_SET(IndexScoresTest);

TEST_P(IndexScoresTest, HeadsAddWhatIsAboveZero) {
  // Row 2 stands at position 5: its first head gives 2 p, its second 1 - p.
  q_.Set(2 * 32 + 0, 2.0f);
  q_.Set(2 * 32 + 16, -1.0f);
  q_.Set(2 * 32 + 17, -1.0f);
  weights_.Set(4, 3.0f);
  weights_.Set(5, -4.0f);
  ASSERT_TRUE(Run<IndexScores>(desc_, Args(1, 3)).ok());
  EXPECT_EQ(lengths_.Int(0), 5);
  EXPECT_EQ(lengths_.Int(1), 6);
  EXPECT_EQ(lengths_.Int(2), 0) << "padding";
  for (int p = 0; p < 6; ++p) {
    const float second = p < 1 ? 1.0f - static_cast<float>(p) : 0.0f;
    EXPECT_EQ(scores_.At(static_cast<size_t>(8 + p)),
              0.5f * (3.0f * 2.0f * static_cast<float>(p) - 4.0f * second))
        << p;
  }
  EXPECT_EQ(scores_.At(8 + 6), -7.0f) << "behind the row's own position";
  EXPECT_EQ(scores_.At(5), -7.0f);
  EXPECT_EQ(scores_.At(16), -7.0f);
}

// What a row's scores are does not depend on the rows that it is computed with.
TEST_P(IndexScoresTest, RowsStandAlone) {
  TestNoise noise(5);
  noise.Fill(q_);
  noise.Fill(k_);
  noise.Fill(weights_);
  ASSERT_TRUE(Run<IndexScores>(desc_, Args(0, 3)).ok());
  const Array together = scores_;
  for (int64_t row = 0; row < 3; ++row) {
    ASSERT_TRUE(Run<IndexScores>(desc_, Args(row, 1)).ok());
    for (int p = 0; p < lengths_.Int(0); ++p)
      EXPECT_EQ(scores_.At(static_cast<size_t>(p)), together.At(static_cast<size_t>(8 * row + p)))
          << row << ", " << p;
  }
}

// Position p is scored p.
TEST_P(IndexScoresTest, LongContexts) {
  constexpr int kContext = 40000, kBlocks = kContext / 4;
  Array k(DType::kF32, {kBlocks, 1, 4, 16}), scores(DType::kF32, {1, kContext});
  std::vector<int32_t> table;
  for (int b = 0; b < kBlocks; ++b) table.push_back(kBlocks - 1 - b);
  for (int p = 0; p < kContext; ++p)
    k.Set(static_cast<size_t>((table[static_cast<size_t>(p / 4)] * 4 + p % 4) * 16),
          static_cast<float>(p));
  q_.Set(0, 2.0f);
  weights_.Set(0, 1.0f);
  const Array start = Array::Ints({0, 1}), context = Array::Ints({kContext});
  const Array blocks = Array::Ints({1, kBlocks}, table);
  IndexScores::Args args = Args(0, 1);
  args.query_start = start.tensor();
  args.context = context.tensor();
  args.block_table = blocks.tensor();
  args.kv.k = k.tensor();
  args.scores = scores.tensor();
  ASSERT_TRUE(Run<IndexScores>(desc_, args).ok());
  EXPECT_EQ(lengths_.Int(0), kContext);
  int wrong = 0;
  for (int p = 0; p < kContext; ++p)
    wrong += scores.At(static_cast<size_t>(p)) != static_cast<float>(p) ? 1 : 0;
  EXPECT_EQ(wrong, 0);
}

TEST_P(IndexScoresTest, WhatDoesNotFitIsRefused) {
  IndexScores::Args args = Args(0, 3);
  args.scores = args.scores.Columns(0, 5);
  EXPECT_THAT(Run<IndexScores>(desc_, args).message(), HasSubstr("context of 6 tokens"));
  args = Args(0, 3);
  args.weights = args.weights.Columns(0, 1);
  EXPECT_THAT(Run<IndexScores>(desc_, args).message(), HasSubstr("weights"));
  table_.Int(3) = 4;
  EXPECT_THAT(Run<IndexScores>(desc_, Args(0, 3)).message(), HasSubstr("block 4"));
  desc_.kv.v_head_dim = 16;
  EXPECT_THAT(RefIndexScoresSupports(desc_, {}).reason, HasSubstr("nothing beside it"));
}

}  // namespace
}  // namespace sluice::ops
