#include "text/pre_tokenizer_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Words = std::vector<std::string>;

Words Matches(std::string_view source, std::string_view text, TextUnit unit = TextUnit::kUtf8) {
  Result<Pattern> pattern = Pattern::Compile(source);
  EXPECT_TRUE(pattern.ok()) << pattern.status().message();
  if (!pattern.ok()) return {};
  PatternBudget budget(text.size());
  PatternState state;
  state.Start(&budget);
  Words found;
  size_t begin = 0;
  size_t end = 0;
  while (pattern->Find(text, unit, end, &state, &begin, &end)) {
    found.emplace_back(text.substr(begin, end - begin));
  }
  return found;
}

std::string PatternError(std::string_view source) {
  Result<Pattern> pattern = Pattern::Compile(source);
  return pattern.ok() ? "no error" : pattern.status().message();
}

constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

TEST(PatternTest, SplitsAsLlama3Does) {
  EXPECT_THAT(Matches(kLlama3, "It's  12345 caf\xC3\xA9!!\n\n x"),
              ElementsAre("It", "'s", " ", " ", "123", "45", " caf\xC3\xA9", "!!\n\n", " x"));
  EXPECT_THAT(Matches(kLlama3, "a   "), ElementsAre("a", "   "));
  EXPECT_THAT(Matches(kLlama3, " \n \n  b"), ElementsAre(" \n \n", " ", " b"));
  EXPECT_THAT(Matches(kLlama3, "'S'LL"), ElementsAre("'S", "'LL"));
}

TEST(PatternTest, CaseFoldingCoversLongS) {
  EXPECT_THAT(Matches("(?i:'s)", "'s'S'\xC5\xBF's"), ElementsAre("'s", "'S", "'\xC5\xBF", "'s"));
  EXPECT_THAT(Matches("'s(?i:k)k", "'skk'sKK'sKk"), ElementsAre("'skk", "'sKk"));
  EXPECT_THAT(Matches("(?i:[X-b]+)", "wxyZABCab"), ElementsAre("xyZAB", "ab"));
  EXPECT_THAT(Matches("(?i:[j-l]+)", "iJ\xE2\x84\xAA\xC5\xBFm"), ElementsAre("J\xE2\x84\xAA"));
}

TEST(PatternTest, AlternativesAreTriedInOrder) {
  EXPECT_THAT(Matches("ab|abc", "abcabc"), ElementsAre("ab", "ab"));
  EXPECT_THAT(Matches("abc|ab", "abcab"), ElementsAre("abc", "ab"));
  EXPECT_THAT(Matches("a(?:b|bc)d", "abcdabd"), ElementsAre("abcd", "abd"));
}

TEST(PatternTest, RunsGiveBack) {
  EXPECT_THAT(Matches("[A-Za-z]*[a-z]x", "ABabxab"), ElementsAre("ABabx"));
  EXPECT_THAT(Matches(R"(\s+(?!\S))", "a   b"), ElementsAre("  "));
  EXPECT_THAT(Matches("a++b", "aab"), ElementsAre("aab"));
  EXPECT_THAT(Matches("a++ab", "aaab"), IsEmpty());
}

TEST(PatternTest, CountsAndOptionalGroups) {
  EXPECT_THAT(Matches("x{2,3}", "xxxxx x"), ElementsAre("xxx", "xx"));
  EXPECT_THAT(Matches("x{2}", "xxxxx"), ElementsAre("xx", "xx"));
  EXPECT_THAT(Matches("a(?:bc)?", "abcab"), ElementsAre("abc", "a"));
  EXPECT_THAT(Matches("(?:ab){2,3}", "abababab ab"), ElementsAre("ababab"));
  EXPECT_THAT(Matches("a{,2}b", "aaab"), ElementsAre("aab"));
  EXPECT_THAT(Matches("a{b", "a{b"), ElementsAre("a{b"));
}

TEST(PatternTest, ClassesNegateNestAndIntersect) {
  EXPECT_THAT(Matches("[^a-c]+", "abcxyz"), ElementsAre("xyz"));
  EXPECT_THAT(Matches(R"([\p{L}&&[^\p{Han}]]+)",
                      "ab\xE4\xB8\xAD"
                      "cd"),
              ElementsAre("ab", "cd"));
  EXPECT_THAT(Matches("[]a]+", "a]b"), ElementsAre("a]"));
  EXPECT_THAT(Matches("[a-]+", "a-b"), ElementsAre("a-"));
  EXPECT_THAT(Matches(R"([\]\-\\]+)", "a]-\\b"), ElementsAre("]-\\"));
  EXPECT_THAT(Matches(R"([\x{4E00}-\x{9FA5}]+)", "x\xE4\xB8\xAD\xE6\x96\x87y"),
              ElementsAre("\xE4\xB8\xAD\xE6\x96\x87"));
  EXPECT_THAT(Matches(R"(\P{L}+)", "a1 b"), ElementsAre("1 "));
}

TEST(PatternTest, TheEndOfALine) {
  EXPECT_THAT(Matches(R"(\s+$)", "a  \nb  "), ElementsAre("  ", "  "));
  EXPECT_THAT(Matches("^a", "aa\na"), ElementsAre("a", "a"));
}

TEST(PatternTest, BytesAreReadInTheirAlphabet) {
  // 0xB2 is the character U+00B2, a number; as UTF-8 it would be half of one.
  EXPECT_THAT(Matches(R"(\p{N}+)",
                      "a\xC2\xB2"
                      "7",
                      TextUnit::kByte),
              ElementsAre("\xB2"
                          "7"));
  // A space is the character U+0120, a letter.
  EXPECT_THAT(Matches(R"(\p{L}+)", "a b", TextUnit::kByte), ElementsAre("a b"));
}

TEST(PatternTest, NamesWhatItDoesNotSupport) {
  EXPECT_THAT(PatternError("a+?"), HasSubstr("a lazy quantifier at byte 2"));
  EXPECT_THAT(PatternError("(?<=a)b"), HasSubstr("a group of another kind"));
  EXPECT_THAT(PatternError("(?:ab)*"), HasSubstr("repeats a group without end"));
  EXPECT_THAT(PatternError(R"(\p{Klingon})"), HasSubstr("an unknown property"));
  EXPECT_THAT(PatternError("a)"), HasSubstr("a ')' without '('"));
  EXPECT_THAT(PatternError("(a"), HasSubstr("a '(' without ')'"));
  EXPECT_THAT(PatternError("[a"), HasSubstr("a '[' without ']'"));
  EXPECT_THAT(PatternError("[z-a]"), HasSubstr("a range that does not go up"));
  EXPECT_THAT(PatternError("*a"), HasSubstr("a quantifier without anything before it"));
  EXPECT_THAT(PatternError(R"(\b)"), HasSubstr("an escape of another kind"));
  EXPECT_THAT(PatternError("a{2000}"), HasSubstr("a count over 1000"));
  EXPECT_THAT(PatternError("\xFF"), HasSubstr("not UTF-8"));
  EXPECT_THAT(PatternError(std::string(300, '(')), HasSubstr("not supported"));
}

TEST(PatternTest, WrittenOutCountsAreBounded) {
  EXPECT_THAT(PatternError("(?:(?:(?:ab){50}){50}){50}"), HasSubstr("too large"));
}

// How much of a text's budget is left after all matches: whether any is.
bool StaysWithin(PatternBudget budget, std::string_view source, std::string_view text) {
  const Pattern pattern = Pattern::Compile(source).value();
  PatternState state;
  state.Start(&budget);
  size_t begin = 0, end = 0;
  while (pattern.Find(text, TextUnit::kUtf8, end, &state, &begin, &end)) continue;
  return !budget.spent();
}

std::string Copies(std::string_view part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

// 64 to the power of 6 copies of nothing.
TEST(PatternTest, AnEmptyGroupIsWrittenOutOnce) {
  std::string source = "(?:){64}";
  for (int i = 0; i < 5; ++i) source = "(?:" + source + "){64}";
  EXPECT_THAT(Matches(source + "a", "ba"), ElementsAre("a"));
  EXPECT_THAT(Matches("a(?:(?:)(?:)){0,64}b", "ab"), ElementsAre("ab"));
}

TEST(PatternTest, WhatIsWrittenOutCountsEvenIfItIsEmpty) {
  const std::string empties = Copies("(?:)", 9'000);
  EXPECT_THAT(PatternError("(?:(?:x" + empties + "){64}){64}"), HasSubstr("too large"));
  EXPECT_THAT(PatternError("(?:(?:" + Copies("|", 9'000) + "x){64}){64}"), HasSubstr("too large"));
  EXPECT_THAT(PatternError("(?:ab)" + Copies("{1}", 20'000)), HasSubstr("nested too deep"));
}

// A parser that went on would use up the stack.
TEST(PatternTest, GroupsNestOnlySoDeep) {
  for (const char* const group : {"(", "(?:", "(?=", "(?i:"}) {
    EXPECT_THAT(PatternError(Copies(group, 16'000)), HasSubstr("groups nested too deep")) << group;
  }
  EXPECT_THAT(PatternError(Copies("(", 32'000)), HasSubstr("groups nested too deep"));
  EXPECT_THAT(PatternError(Copies("(", 32'000) + "a" + Copies(")", 32'000)),
              HasSubstr("groups nested too deep"));
}

TEST(PatternTest, SetsOfCharactersAreBounded) {
  EXPECT_THAT(PatternError("[" + Copies(R"(\p{L})", 2'000) + "]"), HasSubstr("too many ranges"));
  EXPECT_THAT(PatternError(Copies(R"(\P{L})", 2'000)), HasSubstr("too many ranges"));
  std::string many;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'A'; b <= 'Z'; ++b) many += std::string("[") + a + b + "]";
  }
  EXPECT_THAT(PatternError(many), HasSubstr("the limit is 512"));
}

// Neither a node of no width nor an alternative set aside is free.
TEST(PatternTest, EveryNodeAndAlternativeCountsAsWork) {
  const std::string aheads = Copies("(?=a)", 9'000) + "b";
  const std::string empties = "(?:" + Copies("|", 199) + ")";
  const std::string text(2'000, 'a');
  for (const std::string& source : {aheads, empties + aheads}) {
    EXPECT_FALSE(StaysWithin(PatternBudget(text.size()), source, text)) << source.substr(0, 20);
    EXPECT_THAT(Matches(source, text), IsEmpty());
  }
}

// A run that is too short, or longer than what is left, was walked all the same.
TEST(PatternTest, ARunThatFailsCountsAsWork) {
  const std::string text(100'000, 'a');
  EXPECT_FALSE(StaysWithin(PatternBudget(text.size()), "a{500}b", text));
  EXPECT_FALSE(StaysWithin(PatternBudget(0), "a{200,}", text));
}

TEST(PatternTest, PartsOfATextShareItsBudget) {
  const Pattern pattern = Pattern::Compile("(?:a?){30}b").value();
  PatternBudget budget(1'000);
  for (int part = 0; part < 100; ++part) {
    PatternState state;
    state.Start(&budget);
    size_t begin = 0, end = 0;
    pattern.Find(std::string(10, 'a'), TextUnit::kUtf8, 0, &state, &begin, &end);
  }
  EXPECT_TRUE(budget.spent());
}

TEST(PatternTest, PublishedExpressionsNeedHalfOfTheBudget) {
  constexpr char kO200k[] =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
      R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
      R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  for (const char* source : {kLlama3, kO200k}) {
    for (const char* part : {"a ", "A ", "Aa", "AB", "'", "'s", "1", "1a", " ", " \n", "\n", ". ",
                             ".", "a'", "\xC3\x89 ", "\xCC\x81", " 1", "/\n", "'R"}) {
      const std::string text = Copies(part, 20'000);
      EXPECT_TRUE(StaysWithin(PatternBudget(text.size() / 2), source, text)) << source << part;
    }
  }
}

// Each of these would take hours if its time grew with the square of the length.
TEST(PatternTest, LongRunsTakeLinearTime) {
  std::string spaces(2'000'000, ' ');
  EXPECT_THAT(Matches(R"(\s+$)", spaces + "x"), IsEmpty());
  EXPECT_THAT(Matches(R"(\s*[\r\n]+)", spaces + "x"), IsEmpty());
  EXPECT_EQ(Matches(kLlama3, spaces + "x").size(), 2u);
  EXPECT_EQ(Matches(kLlama3, std::string(2'000'000, 'a')).size(), 1u);
}

// No published expression is like this; it must end all the same.
TEST(PatternTest, WorkIsCutOff) {
  std::string text(100'000, 'a');
  EXPECT_THAT(Matches("(?:a?){60}b", text), IsEmpty());
  EXPECT_THAT(Matches("a?a*a*a*a*b", text), IsEmpty());
}

TEST(PatternTest, LiteralsAndSets) {
  Result<Pattern> literal = Pattern::OfLiteral("a.b");
  ASSERT_TRUE(literal.ok());
  PatternState state;
  size_t begin = 0;
  size_t end = 0;
  PatternBudget budget(6);
  state.Start(&budget);
  EXPECT_TRUE(literal->Find("axba.b", TextUnit::kUtf8, 0, &state, &begin, &end));
  EXPECT_EQ(begin, 3u);
  EXPECT_FALSE(Pattern::OfLiteral("").ok());
  EXPECT_FALSE(Pattern::OfLiteral("\xFF").ok());
}

}  // namespace
}  // namespace sluice::text
