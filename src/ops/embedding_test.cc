#include "ops/embedding.h"

#include <gmock/gmock.h>

#include "ops/formats/rows.h"
#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class EmbeddingTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(EmbeddingTest);

TEST_P(EmbeddingTest, RowsOfTheTableScaled) {
  Array table = Array::Floats(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}), out(DType::kF32, {4, 2});
  Array ids = Array::Ints({2, 0, 2, 1});
  ASSERT_TRUE(Run<Embedding>({.vocab = 3, .hidden = 2, .scale = 2.0f},
                             {.ids = ids.tensor(), .table = table.tensor(), .out = out.tensor()})
                  .ok());
  const float expected[] = {10, 12, 2, 4, 10, 12, 6, 8};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out.At(i), expected[i]);
}

TEST_P(EmbeddingTest, RowsAreAddedToWhatIsThere) {
  Array table = Array::Floats(DType::kF32, {2, 2}, {1, 2, 3, 4});
  Array out = Array::Floats(DType::kF32, {2, 2}, {10, 20, 30, 40});
  Array ids = Array::Ints({1, 0});
  ASSERT_TRUE(Run<Embedding>({.vocab = 2, .hidden = 2, .scale = 0.5f, .add = true},
                             {.ids = ids.tensor(), .table = table.tensor(), .out = out.tensor()})
                  .ok());
  const float expected[] = {11.5, 22, 30.5, 41};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out.At(i), expected[i]);
}

TEST_P(EmbeddingTest, IdsBeyondATableMayHaveItsFirstRow) {
  Array table = Array::Floats(DType::kF32, {2, 2}, {1, 2, 3, 4}), out(DType::kF32, {3, 2});
  Array ids = Array::Ints({1, 2, 2000000000});
  const Embedding::Desc desc = {.vocab = 2, .hidden = 2, .first_beyond = true};
  ASSERT_TRUE(
      Run<Embedding>(desc, {.ids = ids.tensor(), .table = table.tensor(), .out = out.tensor()})
          .ok());
  const float expected[] = {3, 4, 1, 2, 1, 2};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out.At(i), expected[i]) << i;
  ids = Array::Ints({1, -1, 0});
  EXPECT_FALSE(
      Run<Embedding>(desc, {.ids = ids.tensor(), .table = table.tensor(), .out = out.tensor()})
          .ok());
}

TEST_P(EmbeddingTest, AQuantizedTableReadsAsItsFormatSays) {
  const int64_t vocab = 5, hidden = 64;
  TestNoise noise(1);
  Array table(DType::kQ8_0, {vocab, hidden}), ids = Array::Ints({4, 1}), out(DType::kF32, {2, 64});
  const size_t row_bytes = RowBytes(DType::kQ8_0, hidden);
  std::vector<float> row(hidden), expected(hidden);
  for (int r = 0; r < vocab; ++r) {
    for (float& value : row) value = noise.Value();
    QuantizeRow(DType::kQ8_0, row, table.tensor().data + r * row_bytes);
  }
  ASSERT_TRUE(Run<Embedding>({.table = DType::kQ8_0, .vocab = vocab, .hidden = hidden},
                             {.ids = ids.tensor(), .table = table.tensor(), .out = out.tensor()})
                  .ok());
  for (int t = 0; t < 2; ++t) {
    DequantizeRow(DType::kQ8_0, table.tensor().data + ids.Int(t) * row_bytes, expected);
    for (int i = 0; i < hidden; ++i) EXPECT_EQ(out.At(t * hidden + i), expected[i]);
  }
}

TEST_P(EmbeddingTest, AnIdOutsideTheTableIsAnError) {
  Array table(DType::kF32, {3, 2}), out(DType::kF32, {2, 2});
  for (int32_t bad : {-1, 3, 2147483647}) {
    Array ids = Array::Ints({0, bad});
    const Status status =
        Run<Embedding>({.vocab = 3, .hidden = 2},
                       {.ids = ids.tensor(), .table = table.tensor(), .out = out.tensor()});
    EXPECT_THAT(status.message(), HasSubstr(StrCat("ids[1] is ", bad)));
  }
}

TEST_P(EmbeddingTest, TheEmptyBatchIsFineAndAWrongTableIsNot) {
  Array table(DType::kF32, {3, 2});
  const Tensor none = Array::Ints({}).tensor(), out = Array(DType::kF32, {0, 2}).tensor();
  EXPECT_TRUE(
      Run<Embedding>({.vocab = 3, .hidden = 2}, {.ids = none, .table = table.tensor(), .out = out})
          .ok());
  EXPECT_FALSE(
      Run<Embedding>({.vocab = 4, .hidden = 2}, {.ids = none, .table = table.tensor(), .out = out})
          .ok());
  EXPECT_THAT(Bind<Embedding>(device_->ops(), {.table = DType::kQ8_0, .vocab = 2, .hidden = 48})
                  .status()
                  .message(),
              HasSubstr("no multiple of the block of 32"));
}

TEST_P(EmbeddingTest, GatherPicksRowsInAnyOrder) {
  for (DType dtype : {DType::kF32, DType::kF16}) {
    Array x(dtype, {4, 3}), rows = Array::Ints({3, 0, 3}), out(dtype, {3, 3});
    TestNoise(4).Fill(x);
    ASSERT_TRUE(Run<GatherRows>({.activation = dtype, .width = 3},
                                {.x = x.tensor(), .rows = rows.tensor(), .out = out.tensor()})
                    .ok());
    for (int i = 0; i < 9; ++i) EXPECT_EQ(out.At(i), x.At(rows.Int(i / 3) * 3 + i % 3));
  }
}

TEST_P(EmbeddingTest, GatherRefusesBadRowsAndOverlap) {
  Array x(DType::kF32, {4, 3}), out(DType::kF32, {1, 3});
  for (int32_t bad : {-1, 4}) {
    EXPECT_FALSE(
        Run<GatherRows>({.width = 3},
                        {.x = x.tensor(), .rows = Array::Ints({bad}).tensor(), .out = out.tensor()})
            .ok());
  }
  EXPECT_THAT(Run<GatherRows>({.width = 3}, {.x = x.tensor(),
                                             .rows = Array::Ints({1}).tensor(),
                                             .out = x.tensor().Rows(1, 1)})
                  .message(),
              HasSubstr("overlap"));
}

}  // namespace
}  // namespace sluice::ops
