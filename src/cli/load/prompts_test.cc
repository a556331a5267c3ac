#include "cli/load/prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/json.h"

namespace sluice::load {
namespace {

TEST(PromptsTest, IdsAreOfTheVocabularyAndTheSameForTheSameSeed) {
  const std::vector<int32_t> ids = RandomIds(1000, 50, 3, 7);
  EXPECT_EQ(std::set<int32_t>(ids.begin(), ids.end()).size(), 50u);
  EXPECT_EQ(*std::min_element(ids.begin(), ids.end()), 0);
  EXPECT_EQ(*std::max_element(ids.begin(), ids.end()), 49);
  EXPECT_EQ(ids, RandomIds(1000, 50, 3, 7));
  EXPECT_NE(ids, RandomIds(1000, 50, 3, 8));
  EXPECT_NE(ids, RandomIds(1000, 50, 4, 7));
}

TEST(PromptsTest, ATextHasSoManyWords) {
  const std::string text = RandomWords(20, 1, 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 19);
  EXPECT_EQ(text, RandomWords(20, 1, 2));
}

TEST(PromptsTest, ABodyAsksForAnAnswerOfAKnownLength) {
  const auto body = ParseJson(CompletionBody(std::vector<int32_t>{4, 5}, 9, "a \"model\""), "it");
  ASSERT_TRUE(body.ok());
  EXPECT_EQ((*body)["prompt"], Json({4, 5}));
  EXPECT_EQ((*body)["model"], "a \"model\"");
  EXPECT_EQ((*body)["max_tokens"], 9);
  EXPECT_EQ((*body)["ignore_eos"], true);
  EXPECT_EQ((*body)["stream"], true);
  EXPECT_EQ((*body)["stream_options"]["include_usage"], true);
  EXPECT_EQ((*ParseJson(CompletionBody("a\nb", 9, "m"), "it"))["prompt"], "a\nb");
}

}  // namespace
}  // namespace sluice::load
