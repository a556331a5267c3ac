#include "text/pre_tokenizer_pattern_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::text {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(PatternClassesTest, WhatTheSameSetsHoldIsOneClass) {
  const auto classes =
      ClassesOf({{{'a', 'c'}}, {{'b', 'b'}, {'x', 'z'}}, {{0, kCodePointEnd - 1}}});
  ASSERT_TRUE(classes.has_value());
  EXPECT_THAT(classes->spans, ElementsAre(Pair(0, 0), Pair('a', 1), Pair('b', 2), Pair('c', 1),
                                          Pair('d', 0), Pair('x', 3), Pair('{', 0)));
  EXPECT_THAT(classes->masks, ElementsAre(0b0110, 0b1100, 0b1111));
}

TEST(PatternClassesTest, WithoutSetsThereIsOneClass) {
  EXPECT_THAT(ClassesOf({})->spans, ElementsAre(Pair(0, 0)));
}

TEST(PatternClassesTest, ClassesAreBounded) {
  std::vector<CodePointSet> sets;
  for (uint32_t c = 0; c < kPatternClassesMax - 1; ++c) sets.push_back({{2 * c, 2 * c}});
  EXPECT_TRUE(ClassesOf(sets).has_value());
  sets.push_back({{1000, 1000}});
  EXPECT_FALSE(ClassesOf(sets).has_value());
}

// Looking at every set wherever any of them begins or ends took 10,000,000 steps here.
TEST(PatternClassesTest, TheWorkGrowsWithTheRangesAndNotWithTheirProductWithTheSets) {
  constexpr uint32_t kRanges = 10'000;
  std::vector<CodePointSet> sets(1);
  for (uint32_t i = 0; i < kRanges; ++i) sets[0].push_back({0x4E00 + 2 * i, 0x4E00 + 2 * i});
  for (uint32_t a = 0; sets.size() < kPatternSetsMax; ++a) {
    for (uint32_t b = a + 1; b < 40 && sets.size() < kPatternSetsMax; ++b) {
      sets.push_back({{3 * a, 3 * a}, {3 * b, 3 * b}});
    }
  }
  const auto classes = ClassesOf(sets);
  ASSERT_TRUE(classes.has_value());
  const size_t ranges = kRanges + 2 * (sets.size() - 1);
  EXPECT_LE(classes->steps, 2 * ranges + kPatternClassesMax * sets.size());
}

}  // namespace
}  // namespace sluice::text
