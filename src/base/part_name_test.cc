#include "base/part_name.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(PartNameTest, TakesANameApartAndNamesTheOthers) {
  const auto part = ParsePartName("Q4_K_M/x.y-00002-of-00012.gguf");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->stem, "Q4_K_M/x.y");
  EXPECT_EQ(part->number, 2);
  EXPECT_EQ(part->count, 12);
  EXPECT_EQ(part->suffix, ".gguf");
  EXPECT_EQ(part->Of(11), "Q4_K_M/x.y-00011-of-00012.gguf");
}

TEST(PartNameTest, OtherNamesAreThoseOfWholeFiles) {
  for (const char* name :
       {"", "x.gguf", "-00001-of-00002.gguf", "x-00001-of-00002", "x-00003-of-00002.gguf",
        "x-00000-of-00002.gguf", "x-0001-of-0002.gguf", "x-+0001-of-00002.gguf",
        "x-00001-or-00002.gguf", "x00001-of-00002.gguf", "x-00001-of-0000a.gguf"}) {
    EXPECT_FALSE(ParsePartName(name)) << name;
  }
}

}  // namespace
}  // namespace sluice
