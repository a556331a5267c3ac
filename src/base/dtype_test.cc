#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace sluice {
namespace {

TEST(DTypeTest, EveryHalfSurvivesARoundTrip) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = F16ToF32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(value))));
      continue;
    }
    EXPECT_EQ(F32ToF16(value), bits);
  }
}

TEST(DTypeTest, HalfRoundsToNearestEvenAsTheCompilerDoes) {
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 9973) {
    const float value = std::bit_cast<float>(bits);
    EXPECT_EQ(F32ToF16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}

TEST(DTypeTest, EveryF8SurvivesARoundTripAndSaturates) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = F8E4M3ToF32(static_cast<uint8_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(F32ToF8E4M3(value), bits) << value;
  }
  EXPECT_EQ(F8E4M3ToF32(F32ToF8E4M3(1e9f)), 448.0f);
  EXPECT_EQ(F8E4M3ToF32(F32ToF8E4M3(-1e9f)), -448.0f);
  EXPECT_EQ(F8E4M3ToF32(F32ToF8E4M3(17.0f)), 16.0f);  // a tie goes to even
}

TEST(DTypeTest, BF16RoundsToNearestEven) {
  EXPECT_EQ(F32ToBF16(1.0f), 0x3f80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(NAN))));
}

}  // namespace
}  // namespace sluice
