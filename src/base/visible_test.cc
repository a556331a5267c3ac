#include "base/visible.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(QuoteTest, ShortTextIsWhole) {
  EXPECT_EQ(Quote(""), "\"\"");
  EXPECT_EQ(Quote("a b"), "\"a b\"");
  EXPECT_EQ(Quote("\u901a\u4e49 \u00e9"), "\"\u901a\u4e49 \u00e9\"");
  EXPECT_EQ(Quote(std::string(120, 'x')), "\"" + std::string(120, 'x') + "\"");
}

TEST(QuoteTest, LongTextIsCutButNoCharacterIs) {
  EXPECT_EQ(Quote(std::string(100'000, 'x')), "\"" + std::string(120, 'x') + "...\"");
  const std::string before(119, 'x');
  EXPECT_EQ(Quote(before + "\u00e9 and more"), "\"" + before + "...\"");
}

TEST(QuoteTest, ATerminalObeysNothing) {
  EXPECT_EQ(Quote("\x1b[2J\x7f\n"), "\"\\x1b[2J\\x7f\\x0a\"");
}

TEST(VisibleTest, ControlCharactersAndBrokenBytesStandAsTheirValues) {
  EXPECT_EQ(Visible("a\tb\r\n"), "a\\x09b\\x0d\\x0a");
  EXPECT_EQ(Visible(std::string_view("\0", 1)), "\\x00");
  // CSI as one character, and as the byte that it is in eight-bit terminals.
  EXPECT_EQ(Visible("\u009b31m \x9b"), "\\xc2\\x9b31m \\x9b");
  EXPECT_EQ(Visible("\u00a0\u00e9"), "\u00a0\u00e9");
  EXPECT_EQ(Visible("cut \xe4\xb8"), "cut \\xe4\\xb8");
  EXPECT_EQ(Visible("\xff\xc0\x9b."), "\\xff\\xc0\\x9b.");
}

TEST(VisibleStreamTest, LinesAndTabsStay) {
  VisibleStream stream;
  EXPECT_EQ(stream.Add("a\tb\nc\x1b[0m\r"), "a\tb\nc\\x1b[0m\\x0d");
  EXPECT_EQ(stream.Finish(), "");
}

// However a text is cut, a terminal is shown the same.
TEST(VisibleStreamTest, PiecesMakeNoDifference) {
  const std::string text = "x\x1b]0;t\x07 \u009b1m \u4e16\U0001f642\xf0\x9f z\xe4";
  const std::string shown = "x\\x1b]0;t\\x07 \\xc2\\x9b1m \u4e16\U0001f642\\xf0\\x9f z\\xe4";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      VisibleStream stream;
      std::string out = stream.Add(text.substr(0, first));
      out += stream.Add(text.substr(first, second - first));
      out += stream.Add(text.substr(second));
      EXPECT_EQ(out + stream.Finish(), shown) << first << " " << second;
    }
  }
}

}  // namespace
}  // namespace sluice
