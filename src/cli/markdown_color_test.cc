#include "cli/markdown_color.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

// In pieces of one byte, which a token may be. Escapes stand as <b>, <d>, <i>, <c> and <>.
std::string Colored(const std::string& text) {
  MarkdownColor color;
  std::string out, shown;
  for (const char c : text) out += color.Add({&c, 1});
  out += color.Finish();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != '\x1b') {
      shown += out[i];
      continue;
    }
    const size_t end = out.find('m', i);
    const std::string code = out.substr(i + 2, end - i - 2);
    shown += code == "0"   ? "<>"
             : code == "1" ? "<b>"
             : code == "2" ? "<d>"
             : code == "3" ? "<i>"
                           : "<c>";
    i = end;
  }
  return shown;
}

TEST(MarkdownColorTest, WordsBetweenMarkersAreBoldItalicOrCode) {
  EXPECT_EQ(Colored("a **bold** b"), "a <b>**bold**<> b");
  EXPECT_EQ(Colored("an *odd* and _even_ one"), "an <i>*odd*<> and <i>_even_<> one");
  EXPECT_EQ(Colored("***both***."), "<b><i>***both***<>.");
  EXPECT_EQ(Colored("call `f(*args)` now"), "call <c>`f(*args)`<> now");
  EXPECT_EQ(Colored("``a ` b``"), "<c>``a ` b``<>");
  EXPECT_EQ(Colored("**bold `code` bold**"), "<b>**bold <><b><c>`code`<><b> bold**<>");
}

TEST(MarkdownColorTest, WhatOnlyLooksLikeAMarkerIsText) {
  for (const char* text : {"2 * 3 * 4", "snake_case_name", "a \\*b\\* c", "#include <x>",
                           "####### seven", "a # b", "* a point", "****", "~~ two"}) {
    EXPECT_EQ(Colored(text), text);
  }
}

TEST(MarkdownColorTest, LinesAreHeadingsOrQuotesToTheirEnd) {
  EXPECT_EQ(Colored("## Of *wrath*\nplain"), "<b>## Of <><b><i>*wrath*<>\nplain");
  EXPECT_EQ(Colored("> said\n\nplain"), "<d>> said<>\n\nplain");
  EXPECT_EQ(Colored("an **open one\nplain"), "an <b>**open one<>\nplain");
}

TEST(MarkdownColorTest, BlocksOfCodeEndWithTheirMarkers) {
  EXPECT_EQ(Colored("```cpp\nint **x;\n# y\n```\n*z*"),
            "<c>```cpp<>\n<c>int **x;<>\n<c># y<>\n<c>```<>\n<i>*z*<>");
  EXPECT_EQ(Colored("  ~~~\n```\n~~~\nend"), "<c>  ~~~<>\n<c>```<>\n<c>~~~<>\nend");
  EXPECT_EQ(Colored("```\ncut"), "<c>```<>\n<c>cut<>");
}

TEST(MarkdownColorTest, TextComesAsSoonAsNoMarkerWaits) {
  MarkdownColor color;
  EXPECT_EQ(color.Add("word"), "word");
  EXPECT_EQ(color.Add(" *"), " ");
  EXPECT_EQ(color.Add("x"), "\x1b[3m*x");
  EXPECT_EQ(color.Finish(), "\x1b[0m");
}

}  // namespace
}  // namespace sluice::cli
