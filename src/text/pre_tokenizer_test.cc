#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/text_step_fixture.h"

namespace sluice::text {
namespace {

using files::TextStep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Collector final : public PreTokenizer::Sink {
 public:
  bool Word(std::string_view word) override {
    words.emplace_back(word);
    return words.size() < words_max;
  }
  Words words;
  size_t words_max = SIZE_MAX;
};

Words Split(const std::vector<TextStep>& steps, std::string_view text, bool at_start = true) {
  Result<PreTokenizer> made = PreTokenizer::Make(steps, TextUnit::kUtf8);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok()) return {};
  PreTokenizerState state;
  Collector collector;
  state.Start(text.size());
  const Status status = made->Split(text, at_start, &state, &collector);
  EXPECT_TRUE(status.ok()) << status.message();
  return collector.words;
}

TextStep SplitStep(std::string pattern, std::string behavior, bool invert = false) {
  TextStep step = Step("Split");
  step.pattern = std::move(pattern);
  step.pattern_is_regex = true;
  step.behavior = std::move(behavior);
  step.options["invert"] = invert;
  return step;
}

TextStep With(std::string type, const char* option, bool value) {
  TextStep step = Step(std::move(type));
  step.options[option] = value;
  return step;
}

TextStep Metaspace(std::string scheme, bool split = true) {
  TextStep step = Step("Metaspace");
  step.content = "_";
  step.behavior = std::move(scheme);
  step.options["split"] = split;
  return step;
}

TEST(PreTokenizerTest, BehaviorsOfSplit) {
  std::string_view text = "the-final--countdown";
  EXPECT_THAT(Split({SplitStep("-", "Isolated")}, text),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(Split({SplitStep("-", "Removed")}, text), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(Split({SplitStep("-", "MergedWithPrevious")}, text),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(Split({SplitStep("-", "MergedWithNext")}, text),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(Split({SplitStep("-", "Contiguous")}, text),
              ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(Split({SplitStep("[a-z]+", "Removed", true)}, text),
              ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(Split({SplitStep("-", "MergedWithNext")}, "a-"), ElementsAre("a", "-"));
}

TEST(PreTokenizerTest, StepsFollowOneAnother) {
  EXPECT_THAT(
      Split({With("Digits", "individual_digits", true), With("ByteLevel", "use_regex", true)},
            "a12 b's  c"),
      ElementsAre("a", "1", "2", " b", "'s", " ", " c"));
  EXPECT_THAT(Split({With("Digits", "individual_digits", false)}, "a12b3"),
              ElementsAre("a", "12", "b", "3"));
}

TEST(PreTokenizerTest, WhitespaceAndPunctuation) {
  EXPECT_THAT(Split({Step("WhitespaceSplit")},
                    " a\xE3\x80\x80"
                    "b,c\n"),
              ElementsAre("a", "b,c"));
  EXPECT_THAT(Split({Step("Whitespace")}, "a_b, c!!"), ElementsAre("a_b", ",", "c", "!!"));
  EXPECT_THAT(Split({Step("BertPreTokenizer")}, "a,b  c$"), ElementsAre("a", ",", "b", "c", "$"));
  TextStep punctuation = Step("Punctuation");
  punctuation.behavior = "Contiguous";
  EXPECT_THAT(Split({punctuation}, "a..b"), ElementsAre("a", "..", "b"));
  TextStep comma = Step("CharDelimiterSplit");
  comma.content = ",";
  EXPECT_THAT(Split({comma}, "a,,b"), ElementsAre("a", "b"));
}

TEST(PreTokenizerTest, MetaspacePrepends) {
  EXPECT_THAT(Split({Metaspace("always")}, "a b"), ElementsAre("_a", "_b"));
  EXPECT_THAT(Split({Metaspace("always")}, " a"), ElementsAre("_a"));
  EXPECT_THAT(Split({Metaspace("never")}, "a b"), ElementsAre("a", "_b"));
  EXPECT_THAT(Split({Metaspace("first")}, "a b", true), ElementsAre("_a", "_b"));
  EXPECT_THAT(Split({Metaspace("first")}, "a b", false), ElementsAre("a", "_b"));
  EXPECT_THAT(Split({Metaspace("always", false)}, "a  b"), ElementsAre("_a__b"));
  EXPECT_THAT(Split({Step("WhitespaceSplit"), Metaspace("always")}, "a  b"),
              ElementsAre("_a", "_b"));
}

TEST(PreTokenizerTest, ByteLevelMayPrependASpace) {
  TextStep step = With("ByteLevel", "add_prefix_space", true);
  EXPECT_THAT(Split({step}, "a b"), ElementsAre(" a", " b"));
  EXPECT_THAT(Split({step}, " a"), ElementsAre(" a"));
}

// Falcon: what stands behind ByteLevel sees bytes, so a number may be half a character.
TEST(PreTokenizerTest, StepsBehindByteLevelSeeBytes) {
  EXPECT_THAT(
      Split({With("ByteLevel", "use_regex", true), With("Digits", "individual_digits", false),
             SplitStep("[0-9][0-9][0-9]", "Isolated")},
            "x\xC2\xB2 12345"),
      ElementsAre("x", "\xC2", "\xB2", " ", "123", "45"));
}

TEST(PreTokenizerTest, FixedLengthCountsCharacters) {
  TextStep step = Step("FixedLength");
  step.content = "2";
  EXPECT_THAT(Split({step}, "a\xC3\xA9\xE4\xB8\xAD"), ElementsAre("a\xC3\xA9", "\xE4\xB8\xAD"));
}

TEST(PreTokenizerTest, RefusesWhatItDoesNotKnow) {
  auto error = [](TextStep step) {
    auto made = PreTokenizer::Make({std::move(step)}, TextUnit::kUtf8);
    return made.ok() ? "no error" : made.status().message();
  };
  EXPECT_THAT(error(Step("UnicodeScripts")), HasSubstr("\"UnicodeScripts\" is not known"));
  EXPECT_THAT(error(SplitStep("-", "Sideways")), HasSubstr("unknown behavior"));
  TextStep length = Step("FixedLength");
  for (const char* value : {"0", "", "-1", "99999999999999999999", "x"}) {
    length.content = value;
    EXPECT_THAT(error(length), HasSubstr("FixedLength needs a length"));
  }
}

TEST(PreTokenizerTest, StopsWhenTheSinkWantsNoMore) {
  Result<PreTokenizer> made =
      PreTokenizer::Make({Step("WhitespaceSplit"), SplitStep("-", "Isolated")}, TextUnit::kUtf8);
  ASSERT_TRUE(made.ok());
  PreTokenizerState state;
  state.Start(100);
  Collector collector;
  collector.words_max = 2;
  EXPECT_TRUE(made->Split("a b-c d e", true, &state, &collector).ok());
  EXPECT_THAT(collector.words, ElementsAre("a", "b"));
}

}  // namespace
}  // namespace sluice::text
