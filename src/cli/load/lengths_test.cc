#include "cli/load/lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::load {
namespace {

using ::testing::HasSubstr;

std::vector<int> Drawn(const char* text, size_t count, uint64_t seed = 1) {
  auto lengths = ParseLengths(text, "input-tokens");
  EXPECT_TRUE(lengths.ok()) << lengths.status().message();
  return DrawLengths(*lengths, count, seed, RandomPurpose::kInputTokens);
}

TEST(LengthsTest, ANumberIsAlwaysThatLength) {
  EXPECT_EQ(Drawn("400", 3), (std::vector<int>{400, 400, 400}));
}

TEST(LengthsTest, AUniformDistributionReachesBothEndsEquallyOften) {
  const std::vector<int> drawn = Drawn("uniform:3:6", 4000);
  for (int length = 3; length <= 6; ++length) {
    EXPECT_NEAR(std::count(drawn.begin(), drawn.end(), length), 1000, 120) << length;
  }
}

TEST(LengthsTest, ALogNormalDistributionHasItsMedianAndSpread) {
  std::vector<int> drawn = Drawn("lognormal:1000:0.5", 10001);
  std::sort(drawn.begin(), drawn.end());
  EXPECT_NEAR(drawn[5000], 1000, 25);
  // One deviation above the median are 84.13 % of the values: 1000 * e^0.5.
  EXPECT_NEAR(drawn[8413], 1648.7, 60);
  const std::vector<int> cut = Drawn("lognormal:1000:2:1500", 1000);
  EXPECT_EQ(*std::max_element(cut.begin(), cut.end()), 1500);
  EXPECT_GE(*std::min_element(cut.begin(), cut.end()), 1);
}

TEST(LengthsTest, ASeedGivesTheSameLengthsAndAnotherOthers) {
  EXPECT_EQ(Drawn("uniform:1:1000", 20, 7), Drawn("uniform:1:1000", 20, 7));
  EXPECT_NE(Drawn("uniform:1:1000", 20, 7), Drawn("uniform:1:1000", 20, 8));
  const auto lengths = ParseLengths("uniform:1:1000", "output-tokens");
  EXPECT_NE(DrawLengths(*lengths, 20, 7, RandomPurpose::kInputTokens),
            DrawLengths(*lengths, 20, 7, RandomPurpose::kOutputTokens));
}

TEST(LengthsTest, OtherTextIsRefusedWithWhatCanBeGiven) {
  for (const char* text : {"",
                           "0",
                           "-4",
                           "1.5",
                           "4x",
                           "1048577",
                           "normal:5:1",
                           "uniform:5",
                           "uniform:6:5",
                           "uniform:0:5",
                           "uniform:1:2:3",
                           "lognormal:5",
                           "lognormal:0:1",
                           "lognormal:5:0",
                           "lognormal:5:11",
                           "lognormal:5:nan",
                           "lognormal:5:1:0",
                           "lognormal:5:1:9:9",
                           ":",
                           "uniform::"}) {
    const auto lengths = ParseLengths(text, "output-tokens");
    ASSERT_FALSE(lengths.ok()) << text;
    EXPECT_EQ(lengths.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(lengths.status().field(), "output-tokens");
    EXPECT_THAT(lengths.status().message(), HasSubstr("uniform:LO:HI")) << text;
  }
}

}  // namespace
}  // namespace sluice::load
