#include "text/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "text/text_step_fixture.h"

namespace sluice::text {
namespace {

using files::TextStep;
using ::testing::HasSubstr;

std::string Normalize(const std::vector<TextStep>& steps, std::string_view text) {
  Result<Normalizer> made = Normalizer::Make(steps);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok()) return {};
  NormalizerState state;
  state.Start(text.size());
  const Result<std::string_view> normalized = made->Normalize(text, &state);
  EXPECT_TRUE(normalized.ok()) << normalized.status().message();
  return normalized.ok() ? std::string(*normalized) : std::string();
}

std::string NormalizerError(TextStep step) {
  Result<Normalizer> made = Normalizer::Make({std::move(step)});
  return made.ok() ? "no error" : made.status().message();
}

// A character map of one entry, "A" to "<a>": the root's children stand at 1 ^ byte.
std::string TinyMap() {
  std::vector<uint32_t> units(512, 0);
  units[0] = 1u << 10;  // root: offset 1
  uint32_t node = 1 ^ 'A';
  units[node] = 2u << 10 | 1u << 8 | 'A';  // has a value, which stands at node ^ 2
  units[node ^ 2] = 1u << 31 | 1;          // the replacement begins at byte 1
  std::string bytes(4 + units.size() * 4, '\0');
  auto size = static_cast<uint32_t>(units.size() * 4);
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, units.data(), size);
  return bytes + std::string("\0<a>\0", 5);
}

TEST(NormalizerTest, PutsMarksForSpaces) {
  TextStep prepend = Step("Prepend");
  prepend.content = "_";
  EXPECT_EQ(Normalize({prepend, Replace(" ", "_")}, "a  b"), "_a__b");
  EXPECT_EQ(Normalize({prepend, Replace(" ", "_")}, ""), "");
}

TEST(NormalizerTest, ReplacesTextsAndPatterns) {
  EXPECT_EQ(Normalize({Replace("ab", "x")}, "aabab"), "axx");
  EXPECT_EQ(Normalize({Replace(" {2,}", " ", true)}, "a   b c"), "a b c");
  EXPECT_EQ(Normalize({Replace("a.c", "x")}, "abca.c"), "abcx");
}

TEST(NormalizerTest, StripsSpaceAndAccents) {
  TextStep strip = Step("Strip");
  EXPECT_EQ(Normalize({strip}, " \xE3\x80\x80 a b \n"), "a b");
  strip.options["strip_right"] = false;
  EXPECT_EQ(Normalize({strip}, " a "), "a ");
  EXPECT_EQ(Normalize({strip}, "   "), "");
  EXPECT_EQ(Normalize({Step("NFD"), Step("StripAccents")}, "\xC3\xA9t\xC3\xA9"), "ete");
  EXPECT_EQ(Normalize({Step("Lowercase")}, "\xC3\x89T\xC3\x89"), "\xC3\xA9t\xC3\xA9");
}

TEST(NormalizerTest, CleansAsBertDoes) {
  EXPECT_EQ(Normalize({Step("BertNormalizer")}, "H\xC3\xA9\x01l\tl\xE4\xB8\xADo\xEF\xBF\xBD"),
            "hel l \xE4\xB8\xAD o");
  TextStep cased = Step("BertNormalizer");
  cased.options["lowercase"] = false;  // keeps accents, too
  EXPECT_EQ(Normalize({cased}, "H\xC3\xA9"), "H\xC3\xA9");
  cased.options["strip_accents"] = true;
  EXPECT_EQ(Normalize({cased}, "H\xC3\xA9"), "He");
}

TEST(NormalizerTest, NmtTurnsControlsIntoSpaces) {
  EXPECT_EQ(Normalize({Step("Nmt")},
                      "a\tb\x01"
                      "c\xE2\x80\x8B"
                      "d"),
            "a bc d");
}

TEST(NormalizerTest, UsesThePrecompiledMap) {
  TextStep step = Step("Precompiled");
  step.precompiled = TinyMap();
  EXPECT_EQ(Normalize({step}, "xAy A"), "x<a>y <a>");
  // The reference replaces a short grapheme as a whole, so the accent is lost.
  EXPECT_EQ(Normalize({step}, "A\xCC\x81!"), "<a>!");
  EXPECT_EQ(Normalize({step}, std::string_view("\0A", 2)), std::string("\0<a>", 4));
}

TEST(NormalizerTest, RefusesBrokenMaps) {
  TextStep step = Step("Precompiled");
  EXPECT_THAT(NormalizerError(step), HasSubstr("has only 0 bytes"));
  step.precompiled = TinyMap().substr(0, 100);
  EXPECT_THAT(NormalizerError(step), HasSubstr("declares a trie of 2048 bytes but 96 follow"));
  step.precompiled = std::string("\x04\x00\x00\x00\xFF\xFF\xFF\xFF\xFE", 9);
  EXPECT_THAT(NormalizerError(step), HasSubstr("not UTF-8"));
  // Offsets that point anywhere must not be followed outside.
  step.precompiled = std::string("\x04\x00\x00\x00\xFF\xFF\xFF\xFF", 8);
  EXPECT_EQ(Normalize({step}, "A b"), "A b");
}

TEST(NormalizerTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(NormalizerError(Step("Rot13")), HasSubstr("\"Rot13\" is not known"));
  EXPECT_THAT(NormalizerError(Replace("(", "", true)), HasSubstr("not supported"));
  EXPECT_THAT(NormalizerError(Replace("", "x")), HasSubstr("empty"));
}

}  // namespace
}  // namespace sluice::text
