#include "base/quoted.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(QuotedTest, ShortTextIsWhole) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("a b"), "\"a b\"");
  EXPECT_EQ(Quoted(std::string(120, 'x')), "\"" + std::string(120, 'x') + "\"");
}

TEST(QuotedTest, LongTextIsCutButNoCharacterIs) {
  EXPECT_EQ(Quoted(std::string(100'000, 'x')), "\"" + std::string(120, 'x') + "...\"");
  const std::string before(119, 'x');
  EXPECT_EQ(Quoted(before + "\u00e9 and more"), "\"" + before + "...\"");
}

TEST(QuotedTest, ATerminalObeysNothing) { EXPECT_EQ(Quoted("\x1b[2J\x7f\n"), "\"?[2J??\""); }

}  // namespace
}  // namespace sluice
