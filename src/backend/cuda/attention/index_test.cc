// Scores of positions and the choice among them: many cases against the references, and a row's
// bits, which do not depend on the rows that it is computed with.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/cuda/attention/index_impls.h"
#include "backend/cuda/attention/index_params.h"
#include "backend/cuda/cuda_test.h"
#include "ops/conformance_case.h"
#include "ops/index_scores.h"
#include "ops/top_k.h"

namespace sluice::cuda {
namespace {

using ops::Array;
using ops::IndexScores;
using ops::TopK;

TEST(IndexParamsTest, SharedMemoryHoldsTheWidestKeys) {
  constexpr int kStatic = 4 << 10, kMost = 227 << 10;
  EXPECT_LE(IndexSharedBytes(kIndexDimMax, true) + kStatic, kMost);
  EXPECT_LE(IndexSharedBytes(kIndexDimMax, false) + kStatic, kMost);
  // Rows that follow one another begin four banks apart.
  EXPECT_EQ(IndexWidth(128, true) * 4 % 128, 16);
  EXPECT_EQ(IndexWidth(128, false) * 2 % 128, 16);
}

class IndexSameness : public CudaTest, public ::testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, IndexSameness,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& type) { return std::string(Name(type.param)); });

TEST_P(IndexSameness, RowsStandAlone) {
  constexpr int kHeads = 64, kDim = 128, kContext = 900, kRows = 40, kPage = 16;
  constexpr int kPages = (kContext + kPage - 1) / kPage;
  const DType type = GetParam();
  IndexScores::Desc desc = {.activation = type, .heads = kHeads, .head_dim = kDim, .scale = 0.1f};
  desc.kv = {type, 1, kDim, 0, kPage};
  ops::TestNoise noise(3);
  const Array q = ops::Filled(noise, type, {kRows, kHeads * kDim});
  const Array weights = ops::Filled(noise, DType::kF32, {kRows, kHeads});
  const Array k = ops::Filled(noise, type, {kPages, 1, kPage, kDim});
  std::vector<int32_t> table(kPages);
  std::iota(table.rbegin(), table.rend(), 0);
  const auto bound = ops::Bind<IndexScores>(device_->ops(), desc);
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  const auto run = [&](int first, int rows) {
    const Array scores = ops::Untouched(DType::kF32, {rows, kContext});
    const Array lengths(DType::kI32, {rows});
    IndexScores::Args args{.q = memory_->Upload(q).Rows(first, rows),
                           .weights = memory_->Upload(weights).Rows(first, rows),
                           .first_row = first,
                           .query_start = memory_->Upload(Array::Ints({0, kRows})),
                           .context = memory_->Upload(Array::Ints({kContext})),
                           .block_table = memory_->Upload(Array::Ints({1, kPages}, table))};
    args.kv.k = memory_->Upload(k);
    args.scores = memory_->Upload(scores);
    args.lengths = memory_->Upload(lengths);
    const Status status = (*bound)(*stream_, args);
    EXPECT_TRUE(status.ok()) << status.message();
    const Array got = memory_->Download(args.scores, scores);
    Array counts = memory_->Download(args.lengths, lengths);
    for (int row = 0; row < rows; ++row)
      EXPECT_EQ(counts.Int(static_cast<size_t>(row)), kContext - kRows + first + row + 1);
    memory_->FreeAll();
    return got;
  };
  const Array together = run(0, kRows);
  for (const int row : {0, 17, 39}) {
    const Array alone = run(row, 1);
    for (int p = 0; p <= kContext - kRows + row; ++p) {
      ASSERT_EQ(alone.At(static_cast<size_t>(p)),
                together.At(static_cast<size_t>(row * kContext + p)))
          << row << ", " << p;
    }
  }
}

class TopKTest : public CudaTest {};

// As many as a long context has, most of them equal to the least that is taken, by far and hardly.
TEST_F(TopKTest, LongRowsAgreeWithTheReference) {
  constexpr int kWidth = 163840, kRows = 3, kTake = 2048;
  ops::TestNoise noise(7);
  Array scores = ops::Filled(noise, DType::kF32, {kRows, kWidth});
  for (size_t p = 0; p < kWidth; ++p) {
    scores.Set(kWidth + p, p % 100 == 99 ? 2.0f : p % 7 == 0 ? 1.0f : -1.0f);
    scores.Set(2 * kWidth + p, p % 2 == 0 ? 0.0f : -0.0f);
  }
  const Array lengths = Array::Ints({kWidth, kWidth - 1, 40000});
  const Array taken(DType::kI32, {kRows, kTake}), expected(DType::kI32, {kRows, kTake});
  const TopK::Desc desc = {.k = kTake};
  const auto bound = ops::Bind<TopK>(device_->ops(), desc);
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  const ops::Tensor out = memory_->Upload(taken);
  const Status status = (*bound)(
      *stream_,
      {.scores = memory_->Upload(scores), .lengths = memory_->Upload(lengths), .positions = out});
  ASSERT_TRUE(status.ok()) << status.message();
  const Array got = memory_->Download(out, taken);
  ASSERT_TRUE(
      ops::RefTopK(
          *stream_, desc,
          {.scores = scores.tensor(), .lengths = lengths.tensor(), .positions = expected.tensor()})
          .ok());
  EXPECT_EQ(got, expected);
}

class IndexConformance : public CudaTest, public ::testing::WithParamInterface<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, IndexConformance, ::testing::Range(uint64_t{31}, uint64_t{35}));

TEST_P(IndexConformance, ManyCasesAgreeWithTheReference) {
  EXPECT_EQ(Verify(*device_, &RegisterIndex, 60, GetParam()), "");
}

}  // namespace
}  // namespace sluice::cuda
