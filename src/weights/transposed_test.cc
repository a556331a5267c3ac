#include "weights/transposed.h"

#include <gmock/gmock.h>

#include "weights/weights_fixture.h"

namespace sluice::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Two groups of three rows, of which the last two are taken: row r has 10 r and 10 r + 1.
TEST(TransposedTest, RowsOfEachGroupBecomeColumns) {
  FakeSource source;
  source.AddF32("x", {6, 2}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51});
  const auto made = TransposedMatrix::Make(*source.Find("x"), {2, 3, 1, 2}, {});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_THAT((*made)->tensor().shape, ElementsAre(2, 2, 2));
  EXPECT_THAT(Floats((*made)->Rows(0, 4)), ElementsAre(10, 20, 11, 21, 40, 50, 41, 51));
  EXPECT_THAT(Floats((*made)->Rows(1, 2)), ElementsAre(11, 21, 40, 50));
}

// As GPT-2 stores its matrices.
TEST(TransposedTest, AMatrixOfColumnsAloneIsAMatrix) {
  FakeSource source;
  source.AddF32("x", {2, 3}, {0, 1, 2, 10, 11, 12});
  const auto made = TransposedMatrix::Make(*source.Find("x"), {1, 2, 0, 2}, {});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_THAT((*made)->tensor().shape, ElementsAre(3, 2));
  EXPECT_THAT(Floats((*made)->Rows(0, 3)), ElementsAre(0, 10, 1, 11, 2, 12));
  EXPECT_THAT(Floats((*made)->Rows(2, 1)), ElementsAre(2, 12));
}

TEST(TransposedTest, F8IsWidenedByItsScales) {
  FakeSource source;
  // 1, 2, -1 and 0.5 in F8.
  source.Add("x", DType::kF8E4M3, {2, 2},
             {std::byte{0x38}, std::byte{0x40}, std::byte{0xb8}, std::byte{0x30}});
  source.AddF32("scales", {2}, {3.0f, 4.0f});
  SourceScales scales;
  scales.covers = ops::WeightScales::kRow;
  scales.weight = source.Find("scales");
  const auto made = TransposedMatrix::Make(*source.Find("x"), {1, 2, 0, 2}, scales);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ((*made)->tensor().dtype, DType::kBF16);
  const std::vector<std::byte> rows = (*made)->Rows(0, 2);
  std::vector<float> values;
  for (size_t i = 0; i < rows.size(); i += 2) {
    values.push_back(BF16ToF32(static_cast<uint16_t>(static_cast<unsigned>(rows[i]) |
                                                     static_cast<unsigned>(rows[i + 1]) << 8)));
  }
  EXPECT_THAT(values, ElementsAre(3, -4, 6, 2));
}

TEST(TransposedTest, OtherRowsAreRefused) {
  FakeSource source;
  source.AddF32("x", {4, 2}, std::vector<float>(8));
  const auto made = TransposedMatrix::Make(*source.Find("x"), {2, 3, 0, 3}, {});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.status().message(), HasSubstr("must have 6 rows"));
}

}  // namespace
}  // namespace sluice::weights
