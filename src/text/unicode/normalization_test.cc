#include "text/unicode/normalization.h"

#include <gtest/gtest.h>

#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

std::string Form(NormalForm form, std::string_view text) {
  std::string out;
  return ToNormalForm(form, text, &out) ? out : std::string(text);
}

TEST(UnicodeNormalizationTest, ComposesAndDecomposes) {
  EXPECT_EQ(Form(NormalForm::kNfc, "re\xCC\x81sume\xCC\x81 x"), "r\xC3\xA9sum\xC3\xA9 x");
  EXPECT_EQ(Form(NormalForm::kNfd, "\xC3\xA9"), "e\xCC\x81");
  EXPECT_EQ(Form(NormalForm::kNfkc, "\xEF\xAC\x81"), "fi");
  EXPECT_EQ(Form(NormalForm::kNfkd, "\xC2\xBD"),
            "1\xE2\x81\x84"
            "2");
  // Hangul: consonant, vowel, final consonant.
  EXPECT_EQ(Form(NormalForm::kNfc, "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"), "\xEA\xB0\x81");
}

TEST(UnicodeNormalizationTest, OrdersMarksByClass) {
  // U+0301 is above (230), U+0316 below (220): below comes first and does not keep the accent off.
  EXPECT_EQ(Form(NormalForm::kNfc, "a\xCC\x81\xCC\x96"), "\xC3\xA1\xCC\x96");
  EXPECT_EQ(Form(NormalForm::kNfd, "a\xCC\x81\xCC\x96"), "a\xCC\x96\xCC\x81");
  // A second mark of the same class is blocked.
  EXPECT_EQ(Form(NormalForm::kNfc, "a\xCC\x8D\xCC\x81"), "a\xCC\x8D\xCC\x81");
}

TEST(UnicodeNormalizationTest, LeavesTextInTheFormAlone) {
  std::string out = "untouched";
  EXPECT_FALSE(ToNormalForm(NormalForm::kNfc, "caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87", &out));
  EXPECT_FALSE(ToNormalForm(NormalForm::kNfkc, "ascii", &out));
  EXPECT_EQ(out, "untouched");
}

TEST(UnicodeNormalizationTest, StartsWithAMark) {
  EXPECT_EQ(Form(NormalForm::kNfc,
                 "\xCC\x81"
                 "a"),
            "\xCC\x81"
            "a");
  EXPECT_EQ(Form(NormalForm::kNfc,
                 "a\xCC\x81\xCC\x81"
                 "be\xCC\x81"),
            "\xC3\xA1\xCC\x81"
            "b\xC3\xA9");
}

TEST(UnicodeNormalizationTest, CodePointsThatTheReferenceDoesNotKnowStayWhereTheyAre) {
  // U+0898 came with Unicode 14; the reference has no combining class for it.
  EXPECT_TRUE(PropertiesOf(0x898) & kNotNormalized);
  EXPECT_EQ(Form(NormalForm::kNfc, "a\xCC\x81\xE0\xA2\x98\xCC\x96"),
            "\xC3\xA1\xE0\xA2\x98\xCC\x96");
}

// A run of a million marks in the worst order would take hours if each were moved one by one.
TEST(UnicodeNormalizationTest, ALongRunOfMarksIsSorted) {
  std::string text = "a";
  for (int i = 0; i < 500'000; ++i) text += "\xCC\x81\xCC\x96";
  std::string out = Form(NormalForm::kNfd, text);
  ASSERT_EQ(out.size(), text.size());
  EXPECT_EQ(out.substr(1, 4), "\xCC\x96\xCC\x96");
  EXPECT_EQ(out.substr(out.size() - 4), "\xCC\x81\xCC\x81");
}

TEST(UnicodeNormalizationTest, Lowercases) {
  std::string out;
  for (uint32_t code_point : {uint32_t{'A'}, uint32_t{'z'}, 0xC9u, 0x130u, 0x3A3u, 0x4E2Du}) {
    AppendLowercase(code_point, &out);
  }
  EXPECT_EQ(out, "az\xC3\xA9i\xCC\x87\xCF\x83\xE4\xB8\xAD");
}

}  // namespace
}  // namespace sluice::text
