#include "text/whole_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "base/utf8.h"

namespace sluice::text {
namespace {

using ::testing::HasSubstr;

// What a JSON string holds without an escape.
constexpr char kAny[] =
    R"([\u{000020}\u{000021}\u{000023}-\u{00005b}\u{00005d}-\u{00d7ff}\u{00e000}-\u{10ffff}]*)";

TEST(WholeRegexTest, AnchorsSayWhatIsLeftFree) {
  EXPECT_EQ(*WholeStringRegex("a+"), StrCat(kAny, "a+", kAny));
  EXPECT_EQ(*WholeStringRegex("^a+"), StrCat("a+", kAny));
  EXPECT_EQ(*WholeStringRegex("a+$"), StrCat(kAny, "a+"));
  EXPECT_EQ(*WholeStringRegex("^a+$"), "a+");
  EXPECT_EQ(*WholeStringRegex("^a|b$|c"),
            StrCat("(a", kAny, "|", kAny, "b|", kAny, "c", kAny, ")"));
  EXPECT_EQ(*WholeRegex("^(a|b)$"), "(a|b)");
  EXPECT_EQ(*WholeRegex("a|b"), "(a|b)");
  EXPECT_EQ(*WholeRegex("|a"), "(|a)");
  EXPECT_EQ(*WholeStringRegex(""), StrCat(kAny, kAny));
}

TEST(WholeRegexTest, WhatLooksLikeAnAnchorIsNone) {
  EXPECT_EQ(*WholeRegex(R"(\^a\$)"), R"(\^a\$)");
  EXPECT_EQ(*WholeRegex("[$^|]"), R"([\u{000024}\u{00005e}\u{00007c}])");
  EXPECT_EQ(*WholeRegex(R"(^[\]$]$)"), R"([\u{000024}\u{00005d}])");
  EXPECT_EQ(*WholeRegex(R"(a\|b)"), R"(a\|b)");
}

// However it is spelled: the string would be no JSON.
TEST(WholeRegexTest, AStringHasNoCharactersThatJsonEscapes) {
  EXPECT_EQ(*WholeStringRegex("^\xE2\x82\xAC$"), R"(\u{0020ac})");
  for (const char* regex :
       {"a\"", R"(\\)", R"(a\n)", R"(\")", R"(^\cC$)", R"(^a\u0003b$)", R"(^[\x00-\x1f]$)", "\x03",
        R"(\x22)", R"(\u0022)", R"(\u{22})", R"(\x5c)", R"([\\])", "[\"]", R"((a|\x0a))", R"(\0)",
        R"([\b])", "[\n]", R"([^\u0020-\u{10ffff}])"}) {
    EXPECT_THAT(WholeStringRegex(regex).status().message(), HasSubstr("which JSON escapes"))
        << regex;
    EXPECT_TRUE(WholeRegex(regex).ok()) << regex;
  }
  EXPECT_EQ(*WholeStringRegex(R"(^[a"\\\x00-\x1f]$)"), "a");
  EXPECT_EQ(*WholeStringRegex(R"(^[^!-\u{10ffff}]$)"), " ");
  EXPECT_THAT(WholeStringRegex(R"(a\cCb)").status().message(), HasSubstr(R"(\cC)"));
}

TEST(WholeRegexTest, AGroupThatMayBeLeftOutComesUpToOnce) {
  EXPECT_EQ(*WholeRegex("a(bc*)?d?"), "a(bc*){0,1}d?");
  EXPECT_EQ(*WholeRegex("((a)?b)??c"), "((a){0,1}b){0,1}c");
  EXPECT_EQ(*WholeRegex(R"([)?]\)?(?:a)*?)"), R"([\u{000029}\u{00003f}]\)?(a)*)");
  EXPECT_EQ(*WholeStringRegex("^(a)?|b$"), StrCat("((a){0,1}", kAny, "|", kAny, "b)"));
}

TEST(WholeRegexTest, EscapesAreTheCharactersThatEcmaSays) {
  EXPECT_EQ(*WholeRegex(R"(\x41bc)"), "Abc");
  EXPECT_EQ(*WholeRegex(R"(\u0041bc\u{42}c)"), "AbcBc");
  EXPECT_EQ(*WholeRegex(R"(\x0abc)"), R"(\u{00000a}bc)");
  EXPECT_EQ(*WholeRegex(R"(\ud83d\udc32)"), R"(\u{01f432})");
  EXPECT_EQ(*WholeRegex(R"(\/\-\@)"), R"(\/-@)");
  EXPECT_EQ(*WholeRegex(R"(\d\w)"), "[0-9][0-9A-Za-z\\u{00005f}]");
  EXPECT_EQ(*WholeRegex(R"([\x01ab])"), R"([ab\u{000001}])");
  EXPECT_EQ(*WholeRegex(R"([\^_])"), R"([\u{00005f}\u{00005e}])");
  EXPECT_EQ(*WholeRegex(R"([\d-.])"), R"([0-9\u{00002d}\u{00002e}])");
  EXPECT_EQ(*WholeRegex(R"([.-\d])"), R"([0-9\u{00002d}\u{00002e}])");
  EXPECT_EQ(*WholeRegex("a{3}b{2,}?c{1,2}()"), "a{3}b{2,}c{1,2}(|)");
  EXPECT_EQ(*WholeRegex("(?<name>a)(?:b|)"), "(a)(b|)");
}

TEST(WholeRegexTest, TheOrderOfAClassChangesNothing) {
  EXPECT_EQ(*WholeRegex("[c-ea0xb]"), *WholeRegex("[xa-e0]"));
  EXPECT_EQ(*WholeRegex("[g-ia-cb-h]"), "[a-i]");
  // Characters that do not touch, from both ends: as many as a pattern has room for.
  std::string up, down;
  for (uint32_t c = 0x4000; c < 0xD000; c += 2) {
    std::string one;
    AppendUtf8(c, &one);
    up += one;
    down.insert(0, one);
  }
  const auto regex = WholeRegex(StrCat("[", up, "]"));
  ASSERT_TRUE(regex.ok()) << regex.status().message();
  EXPECT_EQ(*WholeRegex(StrCat("[", down, "]")), *regex);
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
  EXPECT_THAT(why(R"(\u{41)"), HasSubstr("which is no character"));
  EXPECT_THAT(why(R"(\x4)"), HasSubstr("which is no character"));
  EXPECT_THAT(why(R"([^\x00-\x{10FFFF}])"), HasSubstr(R"(\x{, which is written \u{ here)"));
  EXPECT_EQ(*WholeRegex(R"(\u{10ffff}\u00e4a{2,300}\{9999999})"),
            R"(\u{10ffff}\u{0000e4}a{2,300}\{9999999\})");
}

TEST(WholeRegexTest, WhatIsRefusedIsNamed) {
  const auto why = [](const char* regex) { return WholeRegex(regex).status().message(); };
  EXPECT_THAT(why(R"(\p{L}+)"), HasSubstr(R"(has the escape "\p", a class of Unicode)"));
  EXPECT_THAT(why(R"(a\b)"), HasSubstr("a word's boundary"));
  EXPECT_THAT(why(R"((a)\1)"), HasSubstr("refers back to a group"));
  EXPECT_THAT(why(R"(\Aab\Z)"), HasSubstr(R"("\A", which is no escape of ECMA-262)"));
  EXPECT_THAT(why("a{2,1}"), HasSubstr(R"(has "{2,1}", whose first number is above its second)"));
  EXPECT_THAT(why("a{,2}"), HasSubstr("a { that begins no repetition"));
  EXPECT_THAT(why("a**"), HasSubstr("behind another repetition"));
  EXPECT_THAT(why("(|*a)"), HasSubstr("nothing before it to repeat"));
  EXPECT_THAT(why("(a"), HasSubstr("has a ( that no ) closes"));
  EXPECT_THAT(why("a)"), HasSubstr("has a ) that no ( opens"));
  EXPECT_THAT(why("[a"), HasSubstr("has a [ that no ] closes"));
  EXPECT_THAT(why("[]"), HasSubstr("a class without characters"));
  EXPECT_THAT(why("[z-a]"), HasSubstr("has a range up to \"a\""));
  EXPECT_THAT(why("(?i)a"), HasSubstr("a group that begins with \"?i\""));
  EXPECT_THAT(why("(?<=a)b"), HasSubstr("looks behind"));
  EXPECT_THAT(why("\\"), HasSubstr("ends with a backslash"));
  EXPECT_THAT(why(std::string(201, '(').c_str()), HasSubstr("200 groups within each other"));
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
