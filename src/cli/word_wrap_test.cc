#include "cli/word_wrap.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

// In pieces of one byte, which a token may be.
std::string Wrapped(const std::string& text, int columns) {
  WordWrap wrap;
  std::string out;
  for (const char c : text) out += wrap.Add({&c, 1}, columns);
  return out + wrap.Finish(columns);
}

TEST(WordWrapTest, BreaksBetweenWords) {
  EXPECT_EQ(Wrapped("one two three four", 10), "one two \nthree \nfour");
  EXPECT_EQ(Wrapped("one\n\n  two", 10), "one\n\n  two");
}

// The width is that of the moment, also within a line.
TEST(WordWrapTest, TheRestFollowsANewWidth) {
  WordWrap wrap;
  std::string out = wrap.Add("one two three four ", 20);
  out += wrap.Add("five six seven eight nine", 10);
  out += wrap.Add(" ten eleven twelve", 30);
  EXPECT_EQ(out + wrap.Finish(30),
            "one two three four \nfive six \nseven \neight nine ten eleven twelve");
}

TEST(WordWrapTest, AWordLongerThanALineStaysWhole) {
  EXPECT_EQ(Wrapped("ab " + std::string(30, 'x'), 10).find(std::string(10, 'x')),
            std::string("ab \n").size());
}

TEST(WordWrapTest, ColoursTakeNoRoom) {
  const std::string bold = "\x1b[1m", off = "\x1b[0m";
  EXPECT_EQ(Wrapped("one " + bold + "two" + off + " three four", 10),
            "one " + bold + "two" + off + " \nthree \nfour");
}

TEST(WordWrapTest, CountsColumnsAndSplitsNoCharacter) {
  std::string wide;
  for (int i = 0; i < 20; ++i) wide += "\xe4\xb8\x96";
  std::string out = Wrapped(wide, 10);
  out.erase(std::remove(out.begin(), out.end(), '\n'), out.end());
  EXPECT_EQ(out, wide);
}

}  // namespace
}  // namespace sluice::cli
