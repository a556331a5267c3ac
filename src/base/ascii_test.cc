#include "base/ascii.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(AsciiTest, OnlyLettersOfAsciiAreLowered) {
  EXPECT_EQ(Lower("Az[@`{09\xc3\x84"), "az[@`{09\xc3\x84");
  EXPECT_EQ(Lower(""), "");
}

TEST(AsciiTest, BlanksAreTakenFromBothSides) {
  EXPECT_EQ(Trimmed(" \t\r\n\v\fa b\n"), "a b");
  EXPECT_EQ(Trimmed("ab"), "ab");
  EXPECT_EQ(Trimmed(" \n"), "");
  EXPECT_EQ(Trimmed(""), "");
}

}  // namespace
}  // namespace sluice
