#include "text/thinking_walk.h"

#include <atomic>

#include "text/choice.h"
#include "text/grammar_fixture.h"

namespace sluice::text {
namespace {

// Bytes, and some longer tokens from id 257 on.
enum Longer : TokenId { kOpen = 257, kEndAndMore, kEndAndSpace, kSpaces };

class ThinkingWalkTest : public ::testing::Test {
 protected:
  static std::unique_ptr<AnswerWalk> Choice(std::string text, const ThinkingWalkTest& test) {
    const auto trie = [&](bool first) {
      return std::make_shared<const TokenTrie>(TokenTrie::Make(
          *test.tokenizer_, test.vocab_, std::vector<TokenId>{kEndOfAnswer}, first));
    };
    auto set = ChoiceSet::Make({std::move(text)}, trie(false), trie(false));
    EXPECT_TRUE(set.ok());
    return std::make_unique<ChoiceWalk>(*set, test.tokenizer_, false);
  }
  std::vector<uint32_t> Mask(AnswerWalk* walk) const {
    std::vector<uint32_t> words((static_cast<size_t>(vocab_) + 31) / 32);
    walk->AllowTokens(words);
    return words;
  }
  bool Allows(AnswerWalk* walk, TokenId id) const { return HasBit(Mask(walk), id); }
  int CountAllowed(AnswerWalk* walk) const {
    int count = 0;
    for (const uint32_t word : Mask(walk)) count += __builtin_popcount(word);
    return count;
  }
  // Goes on by bytes, each of which has to be allowed.
  void Go(AnswerWalk* walk, std::string_view text) const {
    for (const char c : text) {
      const TokenId id = static_cast<uint8_t>(c);
      EXPECT_TRUE(Allows(walk, id)) << c << " of " << text;
      ASSERT_TRUE(walk->Go(id)) << c << " of " << text;
    }
  }

  const std::shared_ptr<const Tokenizer> tokenizer_ =
      ByteTokenizer({"<think>", "k>{", "k>\n\n", " \n"});
  const int vocab_ = tokenizer_->vocab_size();
  const std::shared_ptr<const ThinkingTags> tags_ = std::make_shared<const ThinkingTags>(
      tokenizer_, vocab_, std::vector<TokenId>{kEndOfAnswer}, "<think>", "</think>");
};

TEST_F(ThinkingWalkTest, WhatAnAnswerIsHeldToBeginsBehindTheThinking) {
  ThinkingWalk walk(tags_, {.opened = true}, nullptr, Choice("yes", *this));
  Go(&walk, "no <b> </thin");
  EXPECT_FALSE(walk.complete());
  EXPECT_FALSE(Allows(&walk, kEndOfAnswer));
  // Nothing but white space may stand behind the tag in the token that ends it.
  EXPECT_FALSE(Allows(&walk, kEndAndMore));
  EXPECT_TRUE(Allows(&walk, kEndAndSpace));
  ASSERT_TRUE(walk.Go(kEndAndSpace));
  EXPECT_FALSE(walk.complete());
  EXPECT_FALSE(Allows(&walk, 'n'));
  ASSERT_TRUE(walk.Go(kSpaces));
  Go(&walk, "yes");
  EXPECT_TRUE(walk.complete());
  EXPECT_EQ(CountAllowed(&walk), 0);
}

TEST_F(ThinkingWalkTest, BehindTheTagComesLittleWhiteSpace) {
  ThinkingWalk walk(tags_, {.opened = true}, nullptr, Choice("yes", *this));
  Go(&walk, "</think>\n\n");
  EXPECT_FALSE(Allows(&walk, '\n'));
  EXPECT_FALSE(walk.Go('\n'));
  EXPECT_EQ(CountAllowed(&walk), 1);
}

TEST_F(ThinkingWalkTest, AnAnswerMayBeginWithoutThinkingOrWithIt) {
  ThinkingWalk plain(tags_, {}, Choice("yes", *this), Choice("yes", *this));
  Go(&plain, "yes");
  EXPECT_TRUE(plain.complete());
  ThinkingWalk thinks(tags_, {}, Choice("yes", *this), Choice("yes", *this));
  EXPECT_TRUE(Allows(&thinks, kOpen));
  EXPECT_FALSE(Allows(&thinks, 'n'));
  ASSERT_TRUE(thinks.Go(kOpen));
  Go(&thinks, "no</think>yes");
  EXPECT_TRUE(thinks.complete());
}

TEST_F(ThinkingWalkTest, TheTagIsDrawnBehindTheBudget) {
  ThinkingWalk walk(tags_, {.opened = true, .tokens_max = 3}, nullptr, nullptr);
  EXPECT_TRUE(walk.complete());  // a free answer may end within its thinking
  Go(&walk, "abc");
  for (const char c : std::string_view("</think>")) {
    EXPECT_EQ(CountAllowed(&walk), 1) << c;
    EXPECT_FALSE(walk.complete()) << c;
    Go(&walk, std::string_view(&c, 1));
  }
  EXPECT_GT(CountAllowed(&walk), 256);
  EXPECT_TRUE(walk.complete());
}

TEST_F(ThinkingWalkTest, TheTagIsDrawnWhenItIsAskedFor) {
  std::atomic<bool> end = false;
  ThinkingWalk walk(tags_, {.opened = true, .end_now = &end, .may_end = false}, nullptr, nullptr);
  Go(&walk, "a<");
  EXPECT_GT(CountAllowed(&walk), 256);
  EXPECT_FALSE(Allows(&walk, kEndOfAnswer));
  end = true;
  Go(&walk, "/think>b");
  EXPECT_FALSE(walk.complete());
}

TEST_F(ThinkingWalkTest, DraftsAreTakenBackFromWithinAnyPart) {
  for (const TokenId first : {TokenId{'y'}, TokenId{kOpen}}) {
    ThinkingWalk walk(tags_, {.tokens_max = 4}, Choice("yes", *this), Choice("yes", *this));
    std::vector<TokenId> ids = {first};
    for (const char c : std::string_view(first == kOpen ? "a</think>\nyes" : "es"))
      ids.push_back(static_cast<uint8_t>(c));
    std::vector<std::vector<uint32_t>> masks;
    for (const TokenId id : ids) {
      masks.push_back(Mask(&walk));
      ASSERT_TRUE(walk.Go(id));
    }
    for (size_t back = 1; back <= ids.size(); ++back) {
      walk.Back(static_cast<int>(back));
      for (size_t i = ids.size() - back; i < ids.size(); ++i) {
        EXPECT_EQ(Mask(&walk), masks[i]) << back << " back, at " << i;
        ASSERT_TRUE(walk.Go(ids[i]));
      }
    }
  }
}

}  // namespace
}  // namespace sluice::text
