// Classes of names against std::regex, on all short names.
#include "text/name_classes.h"

#include <gtest/gtest.h>

#include <regex>

#include "text/whole_regex.h"

namespace sluice::text {
namespace {

std::vector<std::string> ShortNames() {
  std::vector<std::string> names = {""};
  for (size_t i = 0; names[i].size() < 5; ++i) {
    for (const char c : {'a', 'b', '1', '_'}) names.push_back(names[i] + c);
  }
  return names;
}

TEST(NameClassesTest, EachNameIsInTheClassOfThePatternsThatItFits) {
  const std::vector<std::vector<const char*>> cases = {{"^a"},
                                                       {"a*", "aaa*"},
                                                       {"[0-9]{2,}", "_"},
                                                       {"b1$", "^(a|1b)+$"},
                                                       {"^$"},
                                                       {"^[^a]*$", "^a{1,3}(b(1|_){0,2})?$"}};
  for (const auto& patterns : cases) {
    std::vector<std::string> wholes;
    for (const char* pattern : patterns) wholes.push_back(*WholeStringRegex(pattern));
    const std::vector<std::string> listed = {"ab", "1"};
    const auto classes = ClassesOfNames(wholes, listed);
    ASSERT_TRUE(classes.has_value());
    for (const std::string& name : ShortNames()) {
      uint32_t fitting = 0;
      for (size_t i = 0; i < patterns.size(); ++i) {
        if (std::regex_search(name, std::regex(patterns[i]))) fitting |= 1u << i;
      }
      const std::vector<std::string> alone = {name};
      EXPECT_EQ(PatternsOf(alone, wholes)->at(0), fitting) << name << patterns[0];
      const bool is_listed = name == "ab" || name == "1";
      for (const NameClass& of : *classes) {
        // std::regex knows no \u{...}: the few characters here are told by a regex of the class
        // again.
        const auto in = PatternsOf(alone, std::vector<std::string>{of.regex});
        ASSERT_TRUE(in.has_value());
        EXPECT_EQ(in->at(0) == 1, of.patterns == fitting && !is_listed) << name << patterns[0];
      }
    }
  }
}

TEST(NameClassesTest, WhatWouldBeTooLargeIsSaid) {
  const std::string large = *WholeStringRegex("^(a|b)*a(a|b){12}$");
  EXPECT_FALSE(ClassesOfNames(std::vector<std::string>{large}, {}).has_value());
  const std::vector<std::string> escaped = {"a\""}, simple = {*WholeStringRegex("a")};
  EXPECT_FALSE(PatternsOf(escaped, simple).has_value());
}

}  // namespace
}  // namespace sluice::text
