#include "base/utf8.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Utf8Test, ReadsWhatStandsAtTheFront) {
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

TEST(Utf8Test, RepairPutsOneMarkForEachMaximalSubpart) {
  EXPECT_EQ(RepairUtf8("a\xE2\x82"
                       "b\xFF\xFE\xC3\xA9\xF0"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD");
  EXPECT_TRUE(IsValidUtf8("plain text of more than eight bytes \xE4\xB8\xAD"));
  EXPECT_FALSE(IsValidUtf8("plain text of more than eight bytes \xE4\xB8"));
}

TEST(Utf8Test, EncodesWhatItDecodes) {
  for (uint32_t code_point : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    AppendUtf8(code_point, &text);
    size_t offset = 0;
    EXPECT_EQ(DecodeUtf8(text, &offset), code_point);
    EXPECT_EQ(offset, text.size());
  }
}

TEST(Utf8Test, WalksBothWays) {
  const std::string text = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80";
  EXPECT_EQ(DecodeAll(text), (std::vector<uint32_t>{'a', 0xE9, 0x4E2D, 0x1F600}));
  std::vector<uint32_t> backwards;
  for (size_t offset = text.size(); offset > 0;) {
    backwards.push_back(DecodeUtf8Before(text, &offset));
  }
  EXPECT_EQ(backwards, (std::vector<uint32_t>{0x1F600, 0x4E2D, 0xE9, 'a'}));
}

TEST(Utf8Test, CountsAndCutsByCharacters) {
  const std::string_view text = "a\xC3\xA9\xE4\xB8\xAD";
  EXPECT_EQ(CountUtf8(text), 3u);
  EXPECT_EQ(Utf8Offset(text, 2), 3u);
  EXPECT_EQ(Utf8Offset(text, 9), text.size());
  EXPECT_EQ(Utf8Prefix(text, 5), "a\xC3\xA9");
  EXPECT_EQ(Utf8Prefix(text, 6), text);
  EXPECT_EQ(Utf8Prefix("\xC3\xA9", 1), "");
}

TEST(Utf8Test, ReadsNothingBehindACutCharacter) {
  const std::string text = "\xF0\x9F\x98\x80";
  for (size_t bytes = 1; bytes < text.size(); ++bytes) {
    const std::string_view cut = std::string_view(text).substr(0, bytes);
    size_t offset = 0;
    EXPECT_EQ(DecodeUtf8(cut, &offset), 0xFFFDu);
    EXPECT_EQ(offset, bytes);
    EXPECT_EQ(Utf8LengthAt(cut, 0), bytes);
    EXPECT_EQ(Utf8Offset(cut, 1), bytes);
  }
}

}  // namespace
}  // namespace sluice
