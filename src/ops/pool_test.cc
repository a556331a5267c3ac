#include "ops/pool.h"

#include <gmock/gmock.h>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class PoolTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(PoolTest);

TEST_P(PoolTest, EachSequenceHasItsOwnVector) {
  // Two tokens, then none, then one; the last row is padding.
  Array x = Array::Floats(DType::kF32, {4, 2}, {1, 20, 3, 40, 5, 60, 700, 800});
  Array start = Array::Ints({0, 2, 2, 3});
  const std::pair<PoolKind, std::vector<float>> expected[] = {
      {PoolKind::kFirst, {1, 20}}, {PoolKind::kMean, {2, 30}}, {PoolKind::kLast, {3, 40}}};
  for (const auto& [kind, first] : expected) {
    Array out(DType::kF32, {3, 2});
    out.Fill(-7.0f);
    ASSERT_TRUE(Run<Pool>({.kind = kind, .width = 2},
                          {.x = x.tensor(), .query_start = start.tensor(), .out = out.tensor()})
                    .ok());
    const float all[] = {first[0], first[1], -7, -7, 5, 60};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(out.At(i), all[i]) << i;
  }
}

TEST_P(PoolTest, RowsOutsideAreRefused) {
  Array x(DType::kF32, {4, 2}), out(DType::kF32, {2, 2});
  for (const std::vector<int32_t>& start : {std::vector<int32_t>{0, 2, 5}, {0, 3, 2}, {-1, 2, 3}}) {
    Array starts = Array::Ints(start);
    EXPECT_THAT(Run<Pool>({.width = 2},
                          {.x = x.tensor(), .query_start = starts.tensor(), .out = out.tensor()})
                    .message(),
                HasSubstr("of 4"));
  }
  Array start = Array::Ints({0, 1});
  EXPECT_THAT(
      Run<Pool>({.width = 2}, {.x = x.tensor(), .query_start = start.tensor(), .out = out.tensor()})
          .message(),
      HasSubstr("query_start is I32 [2], expected I32 [3]"));
}

}  // namespace
}  // namespace sluice::ops
