#include "speculate/suffix_automaton.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace sluice::speculate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<int32_t>;
using State = SuffixAutomaton::State;

class SuffixAutomatonTest : public testing::Test {
 protected:
  SuffixAutomatonTest() { texts_.Clear(10'000); }
  State Add(const Tokens& text, State state = SuffixAutomaton::kRoot) {
    for (const int32_t token : text) state = texts_.Extend(state, token);
    return state;
  }
  SuffixAutomaton::Match MatchOf(const Tokens& text) const {
    SuffixAutomaton::Match match;
    for (const int32_t token : text) texts_.Advance(token, &match);
    return match;
  }
  Tokens Follow(const SuffixAutomaton::Match& match, int32_t ends = 0, double least = 0.1,
                size_t most = 8) const {
    Tokens drafts(most);
    drafts.resize(texts_.Follow(match, ends, least, drafts).count);
    return drafts;
  }
  SuffixAutomaton texts_{10'000};
};

TEST_F(SuffixAutomatonTest, FollowsWhatWasSeenMostOften) {
  Add({1, 2, 3, 4});
  Add({1, 2, 5, 6});
  Add({1, 2, 5, 7});
  const auto match = MatchOf({9, 1, 2});
  EXPECT_EQ(match.length, 2);
  Tokens drafts(8);
  const auto guess = texts_.Follow(match, 0, 0.1, drafts);
  drafts.resize(guess.count);
  EXPECT_THAT(drafts, ElementsAre(5, 7)) << "of what was seen equally often, the last";
  EXPECT_NEAR(guess.expected, 2.0 / 3 + 2.0 / 3 * 1 / 2, 1e-9);
}

TEST_F(SuffixAutomatonTest, StopsWhereTheProductOfTheSharesIsTooSmall) {
  for (int32_t i = 0; i < 4; ++i) Add({1, 2, i < 3 ? 3 : 30, i < 2 ? 4 : 40, 5});
  // 3/4, then 2/3 of that.
  EXPECT_THAT(Follow(MatchOf({1, 2}), 0, 0.8), IsEmpty());
  EXPECT_THAT(Follow(MatchOf({1, 2}), 0, 0.6), ElementsAre(3));
  EXPECT_THAT(Follow(MatchOf({1, 2}), 0, 0.5), ElementsAre(3, 4, 5));
}

// Behind 1 2 there was 3 twice, 7 8 9 once, and behind 1 2 3 there were 4 and 5.
TEST_F(SuffixAutomatonTest, TellsWhatFollowedSecondMostOften) {
  Add({1, 2, 7, 8, 9});
  Add({1, 2, 3, 4, 4});
  Add({1, 2, 3, 5, 5});
  Add({1, 2, 3, 5, 6});
  Tokens drafts(3);
  const auto match = MatchOf({1, 2});
  ASSERT_EQ(texts_.Follow(match, 0, 0.1, drafts).count, 3);
  ASSERT_EQ(drafts[0], 3);
  ASSERT_EQ(drafts[1], 5);
  std::vector<Aside> asides(kAsidesMax);
  const auto found = [&](int32_t length, double least) {
    const int32_t count = texts_.FollowAside(match, 0, 3, length, least, asides);
    std::vector<std::pair<int32_t, int32_t>> all;
    for (int32_t i = 0; i < count; ++i) all.emplace_back(asides[i].parent, asides[i].token);
    return all;
  };
  // Numbers 1 to 3 are the drafts, what is found has those behind.
  using testing::Pair;
  const auto all = found(2, 0.1);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_THAT(std::span(all).first(4), ElementsAre(Pair(0, 7), Pair(4, 8), Pair(1, 4), Pair(6, 4)));
  EXPECT_EQ(all[4].first, 2);
  // The shares are a quarter and a third.
  EXPECT_THAT(found(1, 0.25), testing::Contains(Pair(0, 7)));
  EXPECT_THAT(found(1, 0.26), testing::Not(testing::Contains(Pair(0, 7))));
  EXPECT_THAT(found(1, 0.34), testing::Not(testing::Contains(Pair(1, 4))));
  EXPECT_THAT(found(1, 0.3), ElementsAre(Pair(1, 4), testing::_));
  EXPECT_THAT(found(1, 0.9), IsEmpty());
  asides.resize(1);
  EXPECT_EQ(found(2, 0.1).size(), 1u) << "no more than there is room for";
}

TEST_F(SuffixAutomatonTest, TheEndOfATextDoesNotCountAsSomethingElseThatFollowed) {
  const State text = Add({1, 2, 3, 7, 1, 2});
  const auto match = texts_.Before(text);
  EXPECT_EQ(match.length, 2);
  Tokens drafts(1);
  EXPECT_EQ(texts_.Follow(match, 1, 0.1, drafts).expected, 1);
  EXPECT_EQ(texts_.Follow(match, 0, 0.1, drafts).expected, 0.5);
}

TEST_F(SuffixAutomatonTest, WhatRepeatsGoesRound) {
  const State text = Add({1, 2, 3, 1, 2, 3, 1, 2});
  EXPECT_THAT(Follow(texts_.Before(text), 1), ElementsAre(3, 1, 2, 3, 1, 2, 3, 1));
}

// What the automaton must know of a set of texts, by plain counting.
class Plain {
 public:
  void Add(const Tokens& text) { texts_.push_back(text); }
  void Grow(size_t text, int32_t token) {
    if (text == texts_.size()) texts_.emplace_back();
    texts_[text].push_back(token);
  }
  const Tokens& text(size_t i) const { return texts_[i]; }
  size_t size() const { return texts_.size(); }
  // How often each token followed `run`, and how often the run was seen at all.
  std::map<int32_t, int> Followers(std::span<const int32_t> run, int* seen) const {
    std::map<int32_t, int> counts;
    *seen = 0;
    for (const Tokens& text : texts_) {
      for (auto at = text.begin();; ++at) {
        at = std::search(at, text.end(), run.begin(), run.end());
        if (at == text.end()) break;
        ++*seen;
        const auto next = at + static_cast<int64_t>(run.size());
        if (next != text.end()) ++counts[*next];
      }
    }
    return counts;
  }

 private:
  std::vector<Tokens> texts_;
};

TEST_F(SuffixAutomatonTest, KnowsTheLongestMatchAndItsFollowersWhileTextsGrowInTurns) {
  std::mt19937 random(1);
  for (const uint32_t vocabulary : {2, 5, 40}) {
    texts_.Clear(10'000);
    Plain plain;
    std::vector<State> states(4, SuffixAutomaton::kRoot);
    for (size_t i = 0; i < states.size(); ++i) plain.Add({});
    Tokens asked;
    SuffixAutomaton::Match match;
    for (int step = 0; step < 200; ++step) {
      const size_t text = random() % states.size();
      const auto token = static_cast<int32_t>(random() % vocabulary);
      plain.Grow(text, token);
      states[text] = texts_.Extend(states[text], token);
      // A text that is no part of it is matched while it grows.
      asked.push_back(static_cast<int32_t>(random() % vocabulary));
      texts_.Advance(asked.back(), &match);
      int seen = 0, length = static_cast<int>(asked.size());
      std::map<int32_t, int> counts;
      for (; length > 0; --length) {
        counts = plain.Followers(std::span(asked).last(length), &seen);
        if (seen > 0) break;
      }
      // A longer run may have come to be seen since its beginning was matched.
      ASSERT_LE(match.length, length) << step;
      if (match.length == 0) continue;
      counts = plain.Followers(std::span(asked).last(match.length), &seen);
      int32_t draft = -1;
      const auto guess = texts_.Follow(match, 0, 0, {&draft, 1});
      if (counts.empty()) continue;
      int most = 0;
      for (const auto& [follower, count] : counts) most = std::max(most, count);
      ASSERT_EQ(guess.count, 1);
      EXPECT_EQ(counts[draft], most) << step;
      EXPECT_NEAR(guess.expected, static_cast<double>(most) / seen, 1e-9) << step;
    }
    texts_.CheckInvariants();
    // Nothing grows any more: the longest match is found.
    for (int i = 0; i < 200; ++i) {
      asked.push_back(static_cast<int32_t>(random() % vocabulary));
      texts_.Advance(asked.back(), &match);
    }
    int seen = 0;
    plain.Followers(std::span(asked).last(match.length), &seen);
    EXPECT_GT(seen, 0);
    plain.Followers(std::span(asked).last(match.length + 1), &seen);
    EXPECT_EQ(seen, 0);
  }
}

TEST_F(SuffixAutomatonTest, FindsTheLongestEndThatATextHadBefore) {
  std::mt19937 random(2);
  Plain plain;
  plain.Add({});
  State state = SuffixAutomaton::kRoot;
  for (int step = 0; step < 200; ++step) {
    const auto token = static_cast<int32_t>(random() % 4);
    plain.Grow(0, token);
    state = texts_.Extend(state, token);
    const auto match = texts_.Before(state);
    int seen = 0;
    plain.Followers(std::span(plain.text(0)).last(match.length + 1), &seen);
    ASSERT_EQ(seen, 1);
    if (match.length == 0) continue;
    plain.Followers(std::span(plain.text(0)).last(match.length), &seen);
    ASSERT_GT(seen, 1);
  }
}

TEST_F(SuffixAutomatonTest, SaysWhenItIsFullAndStaysAsItWas) {
  std::mt19937 random(3);
  for (const uint32_t vocabulary : {1, 2, 50, 50'000}) {
    texts_.Clear(1000);
    State state = SuffixAutomaton::kRoot;
    int tokens = 0;
    for (; tokens < 100'000; ++tokens) {
      const State longer = texts_.Extend(state, static_cast<int32_t>(random() % vocabulary));
      if (longer == SuffixAutomaton::kFull) break;
      state = longer;
    }
    EXPECT_GE(tokens, 500) << vocabulary;
    EXPECT_LT(tokens, 2000) << vocabulary;
    texts_.CheckInvariants();
    EXPECT_EQ(texts_.Extend(state, 77'777), SuffixAutomaton::kFull);
    texts_.CheckInvariants();
  }
}

TEST_F(SuffixAutomatonTest, ATextThatIsThereTakesNoMemory) {
  texts_.Clear(1000);
  std::mt19937 random(4);
  Tokens text(500);
  for (int32_t& token : text) token = static_cast<int32_t>(random() % 1000);
  for (int i = 0; i < 100; ++i) ASSERT_NE(Add(text), SuffixAutomaton::kFull) << i;
  texts_.CheckInvariants();
}

TEST_F(SuffixAutomatonTest, ForgetsEverything) {
  Add({1, 2, 3});
  texts_.Clear(100);
  EXPECT_EQ(MatchOf({1, 2}).length, 0);
}

}  // namespace
}  // namespace sluice::speculate
