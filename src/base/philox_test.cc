#include "base/philox.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// Known answers of the generator's authors (Random123, kat_vectors).
TEST(PhiloxTest, MatchesThePublishedVectors) {
  EXPECT_EQ(Philox(0, {0, 0, 0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ull, {~0u, ~0u, ~0u, ~0u}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822ull, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, DrawsAreUniformAndDifferByEveryPartOfTheKey) {
  double sum = 0;
  for (int i = 0; i < 200000; ++i) {
    const double u = UniformDraw(7, 0, i, DrawPurpose::kToken);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 200000, 0.5, 0.003);
  const double base = UniformDraw(7, 0, 3, DrawPurpose::kToken);
  EXPECT_NE(base, UniformDraw(8, 0, 3, DrawPurpose::kToken));
  EXPECT_NE(base, UniformDraw(7, 1, 3, DrawPurpose::kToken));
  EXPECT_NE(base, UniformDraw(7, 0, 4, DrawPurpose::kToken));
  EXPECT_NE(base, UniformDraw(7, 0, 3, DrawPurpose::kAccept));
}

}  // namespace
}  // namespace sluice
