#include "text/empty_alternatives.h"

#include <gtest/gtest.h>

namespace sluice::text {
namespace {

TEST(WithEmptyAlternativesTest, WhatHasNoElementsBecomesTheEmptyString) {
  EXPECT_EQ(WithEmptyAlternatives("ws ::= | \" \" ws"), "ws ::= \"\" | \" \" ws");
  EXPECT_EQ(WithEmptyAlternatives("a ::= \"b\" |"), "a ::= \"b\" | \"\"");
  EXPECT_EQ(WithEmptyAlternatives("a ::= (\"b\" | ) ( | c)"), "a ::= (\"b\" | \"\" ) ( \"\" | c)");
  EXPECT_EQ(WithEmptyAlternatives("a ::= \"b\" | || c"), "a ::= \"b\" | \"\" |\"\" | c");
  EXPECT_EQ(WithEmptyAlternatives("a ::=\nb-2 ::= c | # nothing |\nd::=e"),
            "a ::=\n\"\" b-2 ::= c | # nothing |\n\"\" d::=e");
}

TEST(WithEmptyAlternativesTest, EverythingElseStaysAsItIs) {
  for (const char* rules :
       {"", "root ::= \"|\" [|)] '|' [^\\]|] \"\\\"|\" | x", "a ::= b\n  | c\n", "a ::= \"",
        "a ::= [", "a ::= \"\\", "a ::= Tokens() | b", "a ::= b (?=c)", "# |\nroot ::= a", "|a"}) {
    EXPECT_EQ(WithEmptyAlternatives(rules), rules);
  }
}

}  // namespace
}  // namespace sluice::text
