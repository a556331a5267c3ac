#include "cli/bench_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

TEST(ParseMixTest, GivesEverySequenceItsContext) {
  EXPECT_THAT(*ParseMix("7x2,1x1,30x3"), ::testing::ElementsAre(7, 7, 1, 30, 30, 30));
}

TEST(ParseMixTest, WhatIsNoListIsRefused) {
  for (const char* text : {"", "7", "x", "7x", "x2", "7x2,", ",7x2", "7x2x3", "7 x2", "0x1", "7x0",
                           "-7x2", "7x-2", "1048577x1", "1x65536,1x1", "99999999999x1"}) {
    const auto mix = ParseMix(text);
    EXPECT_EQ(mix.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(mix.status().field(), "mix") << text;
  }
}

}  // namespace
}  // namespace sluice::cli
