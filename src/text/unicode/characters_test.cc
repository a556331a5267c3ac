#include "text/unicode/characters.h"

#include <gtest/gtest.h>

namespace sluice::text {
namespace {

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
  EXPECT_TRUE(IsWordCharacter('_'));
  EXPECT_FALSE(IsWordCharacter('-'));
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
