#include "ops/latent_attention.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class LatentAttentionTest : public OpTest {
 protected:
  LatentAttentionTest() {
    desc_ = {.heads = 2, .key_width = 48, .value_width = 32, .scale = 0.5f};
    desc_.kv = {DType::kF32, 1, 48, 0, 4};
    noise_.Fill(q_, 2.0f);
    noise_.Fill(k_);
  }
  LatentAttention::Args Args() {
    LatentAttention::Args args{.q = q_.tensor(),
                               .query_start = start_.tensor(),
                               .context = context_.tensor(),
                               .block_table = table_.tensor()};
    args.kv.k = k_.tensor();
    args.out = out_.tensor();
    return args;
  }
  // Number `i` of the row at `position` of the second sequence.
  double Row(int position, int i) {
    return k_.At(static_cast<size_t>((table_.Int(2 + position / 4) * 4 + position % 4) * 48 + i));
  }

  TestNoise noise_{3};
  LatentAttention::Desc desc_;
  Array q_{DType::kF32, {3, 96}}, k_{DType::kF32, {4, 1, 4, 48}}, out_{DType::kF32, {3, 64}};
  Array start_ = Array::Ints({0, 1, 3}), context_ = Array::Ints({1, 6});
  Array table_ = Array::Ints({2, 2}, {3, -1, 2, 0});
};
SLUICE_FOR_EACH_INSTRUCTION_SET(LatentAttentionTest);

TEST_P(LatentAttentionTest, ARowIsAKeyAndItsEndAValue) {
  ASSERT_TRUE(Run<LatentAttention>(desc_, Args()).ok());
  // The first sequence has one token, whose value is the result of both heads.
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(out_.At(i), k_.At(3 * 4 * 48 + 16 + i % 32), 1e-6) << i;
  }
  // Rows 1 and 2 see five and six positions of the second.
  for (size_t row = 1; row < 3; ++row) {
    for (size_t head = 0; head < 2; ++head) {
      std::vector<double> sums(32);
      double total = 0;
      for (int p = 0; p < static_cast<int>(row) + 4; ++p) {
        double score = 0;
        for (int i = 0; i < 48; ++i)
          score += q_.At(row * 96 + head * 48 + static_cast<size_t>(i)) * Row(p, i);
        const double weight = std::exp(score * 0.5);
        total += weight;
        for (int i = 0; i < 32; ++i) sums[static_cast<size_t>(i)] += weight * Row(p, 16 + i);
      }
      for (size_t i = 0; i < 32; ++i) {
        EXPECT_NEAR(out_.At(row * 64 + head * 32 + i), sums[i] / total, 2e-5) << row << ", " << i;
      }
    }
  }
}

// A list of all of a row's positions gives the very bits of a row without one.
TEST_P(LatentAttentionTest, ListedPositionsAreAllThatARowSees) {
  ASSERT_TRUE(Run<LatentAttention>(desc_, Args()).ok());
  const Array all = out_;
  desc_.listed_max = 6;
  Array lists = Array::Ints({3, 6}, {0, -1, -1, -1, -1, -1,  //
                                     0, 1, 2, 3, 4, -1,      //
                                     0, 1, 2, 3, 4, 5});
  LatentAttention::Args args = Args();
  args.listed = lists.tensor();
  ASSERT_TRUE(Run<LatentAttention>(desc_, args).ok());
  for (size_t i = 0; i < out_.Count(); ++i) EXPECT_NEAR(out_.At(i), all.At(i), 2e-6) << i;
  if (GetParam() != "ref") {
    EXPECT_EQ(out_, all);
  }

  // Row 2 sees positions 1 and 4 alone.
  lists.Int(12) = 1, lists.Int(13) = 4, lists.Int(14) = -1;
  ASSERT_TRUE(Run<LatentAttention>(desc_, args).ok());
  std::vector<double> sums(32);
  double total = 0;
  for (const int p : {1, 4}) {
    double score = 0;
    for (int i = 0; i < 48; ++i) score += q_.At(static_cast<size_t>(2 * 96 + i)) * Row(p, i);
    total += std::exp(score * 0.5);
    for (int i = 0; i < 32; ++i)
      sums[static_cast<size_t>(i)] += std::exp(score * 0.5) * Row(p, 16 + i);
  }
  for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(out_.At(128 + i), sums[i] / total, 2e-5) << i;
}

TEST_P(LatentAttentionTest, ListsAreChecked) {
  desc_.listed_max = 2;
  Array lists = Array::Ints({3, 2}, {0, -1, 1, 4, 3, 5});
  LatentAttention::Args args = Args();
  EXPECT_THAT(Run<LatentAttention>(desc_, args).message(), HasSubstr("listed"));
  args.listed = lists.tensor();
  EXPECT_TRUE(Run<LatentAttention>(desc_, args).ok());
  for (const auto& [at, position] : {std::pair(3, 5), std::pair(3, 1), std::pair(4, -1)}) {
    Array wrong = lists;
    wrong.Int(static_cast<size_t>(at)) = position;
    args.listed = wrong.tensor();
    EXPECT_THAT(Run<LatentAttention>(desc_, args).message(), HasSubstr("don't ascend"));
  }
}

TEST_P(LatentAttentionTest, RowsOfTreesHaveNoLists) {
  desc_.paths = true;
  EXPECT_TRUE(RefLatentAttentionSupports(desc_, {}).ok);
  desc_.listed_max = 2;
  EXPECT_THAT(RefLatentAttentionSupports(desc_, {}).reason, HasSubstr("don't see listed"));
}

TEST_P(LatentAttentionTest, ShapesAreChecked) {
  LatentAttention::Args args = Args();
  args.out = args.out.Columns(0, 63);
  EXPECT_THAT(Run<LatentAttention>(desc_, args).message(), HasSubstr("out"));
  desc_.value_width = 49;
  EXPECT_FALSE(RefLatentAttentionSupports(desc_, {}).ok);
  desc_.value_width = 32;
  desc_.kv.v_head_dim = 48;
  EXPECT_THAT(RefLatentAttentionSupports(desc_, {}).reason, HasSubstr("a V beside"));
}

}  // namespace
}  // namespace sluice::ops
