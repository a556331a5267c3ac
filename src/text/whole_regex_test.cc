#include "text/whole_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::text {
namespace {

using ::testing::HasSubstr;

TEST(WholeRegexTest, AnchorsSayWhatIsLeftFree) {
  EXPECT_EQ(*WholeStringRegex("a+"), ".*a+.*");
  EXPECT_EQ(*WholeStringRegex("^a+"), "a+.*");
  EXPECT_EQ(*WholeStringRegex("a+$"), ".*a+");
  EXPECT_EQ(*WholeStringRegex("^a+$"), "a+");
  EXPECT_EQ(*WholeStringRegex("^a|b$|c"), "(a.*|.*b|.*c.*)");
  EXPECT_EQ(*WholeRegex("^(a|b)$"), "(a|b)");
  EXPECT_EQ(*WholeRegex("a|b"), "(a|b)");
  EXPECT_EQ(*WholeRegex("|a"), "(|a)");
  EXPECT_EQ(*WholeStringRegex(""), ".*.*");
}

TEST(WholeRegexTest, WhatLooksLikeAnAnchorIsNone) {
  EXPECT_EQ(*WholeRegex(R"(\^a\$)"), R"(\^a\$)");
  EXPECT_EQ(*WholeRegex("[$^|]"), "[$^|]");
  EXPECT_EQ(*WholeRegex(R"(^[\]$]$)"), R"([\]$])");
  EXPECT_EQ(*WholeRegex(R"(a\|b)"), R"(a\|b)");
}

TEST(WholeRegexTest, AStringHasNoCharactersThatJsonEscapes) {
  EXPECT_EQ(*WholeStringRegex("^\xE2\x82\xAC$"), R"(\u{0020ac})");
  EXPECT_EQ(*WholeStringRegex(R"(^[^"\\]$)"), R"([^"\\])");
  for (const char* regex : {"a\"", R"(\\)", R"(a\n)", R"(\")"}) {
    EXPECT_FALSE(WholeStringRegex(regex).ok()) << regex;
    EXPECT_TRUE(WholeRegex(regex).ok()) << regex;
  }
}

TEST(WholeRegexTest, AGroupThatMayBeLeftOutComesUpToOnce) {
  EXPECT_EQ(*WholeRegex("a(bc*)?d?"), "a(bc*){0,1}d?");
  EXPECT_EQ(*WholeRegex("((a)?b)??c"), "((a){0,1}b){0,1}c");
  EXPECT_EQ(*WholeRegex(R"([)?]\)?(?:a)*?)"), R"([)?]\)?(?:a)*?)");
  EXPECT_EQ(*WholeStringRegex("^(a)?|b$"), "((a){0,1}.*|.*b)");
}

// The library takes no repetition of more than 128 within a pattern.
TEST(WholeRegexTest, LengthsAreWrittenInPartsOfAHundredAndTwenty) {
  const std::string c = R"([^"\\\x00-\x1f])";
  EXPECT_EQ(StringLengthRegex(2, {}), c + "{2}" + c + "*");
  EXPECT_EQ(StringLengthRegex(0, 4), c + "{0,4}");
  EXPECT_EQ(StringLengthRegex(3, 3), c + "{3}");
  EXPECT_EQ(StringLengthRegex(130, 131), c + "{120}" + c + "{10}" + c + "{0,1}");
  EXPECT_EQ(StringLengthRegex(0, 121), "(" + c + "{0,119}|" + c + "{120}" + c + "{0,1})");
}

TEST(WholeRegexTest, OtherStringsAreNoneOfTheNames) {
  EXPECT_EQ(
      OtherStringsRegex({"a"}),
      R"(([^"\\\x00-\x1f\u{000061}][^"\\\x00-\x1f]*|\u{000061}([^"\\\x00-\x1f][^"\\\x00-\x1f]*)|))");
  EXPECT_EQ(OtherStringsRegex({std::string(50, 'a'), "b"}),
            R"([^"\\\x00-\x1f\u{000061}\u{000062}][^"\\\x00-\x1f]*)");
}

TEST(WholeRegexTest, WhatTheLibraryWouldMisreadIsRefused) {
  const auto why = [](const char* regex) { return WholeRegex(regex).status().message(); };
  EXPECT_THAT(why("a{4294967297}"), HasSubstr("repeats something more than 100000 times"));
  EXPECT_THAT(why("a{2,99999999999999999999}"), HasSubstr("more than 100000 times"));
  EXPECT_THAT(why(R"(\u{110000})"), HasSubstr("which is no character"));
  EXPECT_THAT(why(R"([\ud800])"), HasSubstr("which is no character"));
  EXPECT_THAT(why(R"(\u{})"), HasSubstr("which is no character"));
  EXPECT_THAT(why(R"([^\x00-\x{10FFFF}])"), HasSubstr(R"(\x{, which is written \u{ here)"));
  EXPECT_EQ(*WholeRegex(R"(\u{10ffff}\u00e4a{2,300}\{9999999})"),
            R"(\u{10ffff}\u00e4a{2,300}\{9999999})");
}

TEST(WholeRegexTest, WhatTheLibraryWouldLeaveOutIsRefused) {
  for (const char* regex : {"(^a)", "a^b", "a$b", "(a$|b)", "(?=a)b", "a(?!b)", "$$"}) {
    const auto whole = WholeRegex(regex);
    EXPECT_FALSE(whole.ok()) << regex;
    EXPECT_EQ(whole.status().field(), "grammar");
  }
}

}  // namespace
}  // namespace sluice::text
