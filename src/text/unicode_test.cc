#include "text/unicode.h"

#include <gtest/gtest.h>

namespace sluice::text {
namespace {

TEST(UnicodeTest, ReadsWhatStandsAtTheFront) {
  using Kind = Utf8Front::Kind;
  struct Case {
    std::string bytes;
    Kind kind;
    size_t length;
  };
  const Case cases[] = {
      {"a\xFF", Kind::kValid, 1},
      {"\xC3\xA9", Kind::kValid, 2},
      {"\xF0\x9F\x98\x80", Kind::kValid, 4},
      {"\x80", Kind::kBroken, 1},
      {"\xC0\x80", Kind::kBroken, 1},          // overlong
      {"\xE0\x80\x80", Kind::kBroken, 1},      // overlong
      {"\xED\xA0\x80", Kind::kBroken, 1},      // a surrogate
      {"\xF4\x90\x80\x80", Kind::kBroken, 1},  // above U+10FFFF
      {"\xF5\x80", Kind::kBroken, 1},
      {"\xE2\x82x", Kind::kBroken, 2},
      {"\xF0\x9F\x98x", Kind::kBroken, 3},
      {"\xE2\x82", Kind::kUnfinished, 2},
      {"\xF0", Kind::kUnfinished, 1},
  };
  for (const Case& c : cases) {
    Utf8Front front = ReadUtf8Front(c.bytes);
    EXPECT_EQ(front.kind, c.kind) << c.bytes;
    EXPECT_EQ(front.length, c.length) << c.bytes;
  }
}

TEST(UnicodeTest, RepairPutsOneMarkForEachMaximalSubpart) {
  EXPECT_EQ(RepairUtf8("a\xE2\x82"
                       "b\xFF\xFE\xC3\xA9\xF0"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD");
  EXPECT_TRUE(IsValidUtf8("plain text of more than eight bytes \xE4\xB8\xAD"));
  EXPECT_FALSE(IsValidUtf8("plain text of more than eight bytes \xE4\xB8"));
}

TEST(UnicodeTest, EncodesWhatItDecodes) {
  for (uint32_t code_point : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    AppendUtf8(code_point, &text);
    size_t offset = 0;
    EXPECT_EQ(DecodeUtf8(text, &offset), code_point);
    EXPECT_EQ(offset, text.size());
  }
}

TEST(UnicodeTest, KnowsCategoriesAndProperties) {
  EXPECT_EQ(CategoryOf('A'), Category::kLu);
  EXPECT_EQ(CategoryOf('_'), Category::kPc);
  EXPECT_EQ(CategoryOf(0x4E2D), Category::kLo);
  EXPECT_EQ(CategoryOf(0x301), Category::kMn);
  EXPECT_EQ(CategoryOf(0x10FFFF), Category::kCn);
  EXPECT_EQ(CategoryOf(0x110000), Category::kCn);
  EXPECT_TRUE(PropertiesOf(0x4E2D) & kHan);
  EXPECT_FALSE(PropertiesOf(0x3042) & kHan);
  EXPECT_TRUE(PropertiesOf('$') & kBertPunctuation);
  EXPECT_TRUE(IsWhitespace(0x3000));
  EXPECT_TRUE(IsWhitespace(0x85));
  EXPECT_FALSE(IsWhitespace(0x200B));
  EXPECT_TRUE(IsNumeric(0xBD));
  EXPECT_TRUE(IsWordCharacter('_'));
  EXPECT_FALSE(IsWordCharacter('-'));
}

TEST(UnicodeTest, TheByteAlphabetGoesBothWays) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(CharacterToByte(ByteToCharacter(static_cast<uint8_t>(byte))), byte);
  }
  EXPECT_EQ(ByteToCharacter(' '), 0x120u);
  EXPECT_EQ(CharacterToByte(0x144), -1);
  std::string bytes;
  EXPECT_TRUE(
      BytesOfAlphabet("\xC4\xA0"
                      "hi",
                      &bytes));
  EXPECT_EQ(bytes, " hi");
  EXPECT_FALSE(BytesOfAlphabet("\xE4\xB8\xAD", &bytes));
}

TEST(UnicodeTest, SetsJoinAndComplement) {
  CodePointSet set = Union({{'a', 'c'}}, {{'d', 'f'}, {'x', 'z'}});
  ASSERT_EQ(set.size(), 2u);
  EXPECT_EQ(set[0].last, static_cast<uint32_t>('f'));
  EXPECT_TRUE(Contains(set, 'e'));
  EXPECT_FALSE(Contains(set, 'g'));
  EXPECT_FALSE(Contains(Complement(set), 'e'));
  EXPECT_TRUE(Contains(Complement(set), 'g'));
  CodePointSet both = Intersection(set, {{'e', 'y'}});
  EXPECT_TRUE(Contains(both, 'f'));
  EXPECT_FALSE(Contains(both, 'd'));
  EXPECT_FALSE(Contains(both, 'z'));
}

}  // namespace
}  // namespace sluice::text
