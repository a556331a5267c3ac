#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

std::string Feed(StopMatcher* matcher, const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += matcher->Add(piece);
  if (!matcher->matched()) text += matcher->Finish();
  return text;
}

TEST(StopMatcherTest, FindsAStopAcrossPieces) {
  StopMatcher matcher({"END"}, false);
  EXPECT_EQ(Feed(&matcher, {"abcE", "N", "Dxyz"}), "abc");
  EXPECT_EQ(matcher.match(), "END");
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBeAStop) {
  StopMatcher matcher({"\n\n"}, false);
  EXPECT_EQ(matcher.Add("a\n"), "a");
  EXPECT_EQ(matcher.Add("b"), "\nb");
  EXPECT_EQ(matcher.Add("\n"), "");
  EXPECT_EQ(matcher.Finish(), "\n");
}

TEST(StopMatcherTest, AStopThatEndsTooEarlyNeverCounts) {
  StopMatcher matcher({"END", "xENDyy"}, false);
  EXPECT_EQ(matcher.Add("aEND", false), "aEND");
  EXPECT_EQ(matcher.Add("xEND", false), "");  // held for the longer one, which may come yet
  EXPECT_EQ(matcher.Add("z"), "xENDz");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.Add("EN", false), "");
  EXPECT_EQ(matcher.Add("D"), "");  // ends where it may
  EXPECT_EQ(matcher.match(), "END");
}

TEST(StopMatcherTest, OverlappingBeginningsAreNotMissed) {
  StopMatcher matcher({"aab"}, false);
  EXPECT_EQ(Feed(&matcher, {"a", "a", "a", "b", "c"}), "a");
}

TEST(StopMatcherTest, TheEarliestThenTheLongestWinsInAnyOrder) {
  for (auto stops : {std::vector<std::string>{"b", "bcd", "c"}, {"c", "bcd", "b"}}) {
    StopMatcher matcher(stops, true);
    EXPECT_EQ(Feed(&matcher, {"abcd"}), "abcd");
    EXPECT_EQ(matcher.match(), "bcd");
  }
}

TEST(StopMatcherTest, NothingComesAfterAMatch) {
  StopMatcher matcher({"x"}, false);
  EXPECT_EQ(matcher.Add("axb"), "a");
  EXPECT_EQ(matcher.Add("more"), "");
}

}  // namespace
}  // namespace sluice::engine
