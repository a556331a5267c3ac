#include "speculate/suffix_proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace sluice::speculate {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using Tokens = std::vector<int32_t>;

Draft Ask(Proposer& proposer, int32_t slot, const Tokens& tokens, Tokens* drafts) {
  drafts->resize(8);
  const Draft draft = proposer.Propose(slot, tokens, *drafts);
  drafts->resize(draft.count);
  return draft;
}

Tokens SuffixDrafts(Proposer& proposer, int32_t slot, const Tokens& tokens) {
  Tokens drafts;
  Ask(proposer, slot, tokens, &drafts);
  return drafts;
}

void End(Proposer& proposer, int32_t slot, const Tokens& tokens) {
  while (!proposer.End(slot, tokens)) continue;
}

// Of a sequence that is begun anew.
Tokens DraftsOf(Proposer& proposer, uint64_t key, const Tokens& tokens, int32_t slot = 0) {
  proposer.Start(slot, {.tokens_max = 1000, .key = key});
  return SuffixDrafts(proposer, slot, tokens);
}

Tokens Random(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 100'000);
  return tokens;
}

constexpr ProposerLimits kLimits = {.slots = 2, .tokens_max = 20'000};
// Parts of 1,000 tokens.
constexpr SuffixProposer::Memory kSmall = {
    .own_bytes = 200'000, .part_bytes = 88'000, .parts = 3, .parts_of_key = 2};

TEST(SuffixProposer, DraftsBehindTwoTokensThatWereFoundAgainAsFarAsThereIsRoom) {
  SuffixProposer proposer(kLimits);
  Tokens text;
  for (int32_t token = 1; token <= 40; ++token) text.push_back(token);
  const auto count_behind = [&](std::initializer_list<int32_t> tail, size_t room) {
    Tokens tokens = text, drafts(room);
    tokens.push_back(99);
    tokens.insert(tokens.end(), tail);
    proposer.Start(0, {.tokens_max = 1000});
    return proposer.Propose(0, tokens, drafts).count;
  };
  EXPECT_EQ(count_behind({1}, 8), 0) << "one token says too little";
  EXPECT_EQ(count_behind({1, 2}, 8), 8);
  EXPECT_EQ(count_behind({1, 2}, 5), 5);
}

TEST(SuffixProposer, AShorterEndWinsWhereMoreSpeaksForWhatFollowedIt) {
  SuffixProposer proposer(kLimits);
  // Behind 1 2 3 each time something else; behind 2 3 nearly always 7 8 9 10.
  Tokens tokens;
  for (int32_t i = 0; i < 4; ++i) tokens.insert(tokens.end(), {1, 2, 3, 50 + i, 60 + i});
  for (int32_t i = 0; i < 40; ++i) tokens.insert(tokens.end(), {20 + i, 2, 3, 7, 8, 9, 10});
  tokens.insert(tokens.end(), {1, 2, 3});
  const Tokens drafts = DraftsOf(proposer, 1, tokens);
  ASSERT_GE(drafts.size(), 2u);
  EXPECT_THAT(Tokens(drafts.begin(), drafts.begin() + 2), ElementsAre(7, 8));
}

TEST(SuffixProposer, LongerMatchesHaveABetterGrade) {
  SuffixProposer proposer(kLimits);
  for (const auto& [length, grade] :
       {std::pair{2, 0}, {3, 1}, {4, 1}, {5, 2}, {8, 2}, {9, 3}, {40, 3}}) {
    Tokens tokens;
    for (int copy = 0; copy < 2; ++copy) {
      tokens.push_back(500 + copy);
      for (int32_t i = 0; i < length; ++i) tokens.push_back(i);
    }
    proposer.Start(0, {.tokens_max = 1000});
    Tokens drafts;
    EXPECT_EQ(Ask(proposer, 0, tokens, &drafts).grade, grade) << length;
  }
}

TEST(SuffixProposer, LearnsFromEndedSequencesOfTheSameKeyOnly) {
  SuffixProposer proposer(kLimits);
  const Tokens text = Random(1, 600);
  proposer.Start(0, {.tokens_max = 1000, .key = 1});
  SuffixDrafts(proposer, 0, text);
  End(proposer, 0, text);
  const Tokens asked(text.begin() + 100, text.begin() + 110);
  EXPECT_THAT(DraftsOf(proposer, 1, asked),
              ElementsAreArray(text.begin() + 110, text.begin() + 118));
  EXPECT_THAT(DraftsOf(proposer, 2, asked), IsEmpty());
  EXPECT_THAT(DraftsOf(proposer, 0, asked), IsEmpty());
}

// Keys whose sequences end in turns, with parts that go from one to another: no draft of a key ever
// holds a token that only another one wrote.
TEST(SuffixProposer, NoKeySeesWhatAnotherWroteWhoeverHadThePartBefore) {
  SuffixProposer proposer(kLimits, kSmall);
  std::mt19937 random(5);
  int drafted = 0;
  for (int round = 0; round < 300; ++round) {
    const uint64_t key = random() % 5;
    const auto slot = static_cast<int32_t>(random() % 2);
    Tokens text;
    for (int i = 0; i < 200; ++i) {
      // Every key has the same beginnings, and goes on with tokens of its own.
      const auto place = static_cast<int32_t>(random() % 20);
      text.insert(text.end(), {place, place + 20, 1000 * static_cast<int32_t>(key + 1) + place});
    }
    proposer.Start(slot, {.tokens_max = 1000, .key = key});
    for (size_t size = 2; size < 60; size += 3) {
      for (const int32_t draft :
           SuffixDrafts(proposer, slot, {text.begin(), text.begin() + size})) {
        EXPECT_TRUE(draft < 1000 || draft / 1000 == static_cast<int32_t>(key) + 1)
            << draft << " for the key " << key;
        drafted += draft >= 1000;
      }
    }
    End(proposer, slot, text);
  }
  EXPECT_GT(drafted, 500);
}

TEST(SuffixProposer, AKeyHasItsShareOfThePartsAndTheLeastUsedGo) {
  SuffixProposer proposer(kLimits, kSmall);
  const auto learn = [&](uint64_t key, const Tokens& text) {
    proposer.Start(1, {.tokens_max = 5000, .key = key});
    End(proposer, 1, text);
  };
  const auto knows = [&](uint64_t key, const Tokens& text, int64_t at) {
    return !DraftsOf(proposer, key, {text.begin() + at, text.begin() + at + 8}).empty();
  };
  const Tokens one = Random(1, 400), two = Random(2, 4000), three = Random(3, 400);
  learn(1, one);
  EXPECT_EQ(proposer.PartsOf(1), 1);
  learn(2, two);
  EXPECT_EQ(proposer.PartsOf(2), 2) << "no more than its share";
  EXPECT_TRUE(knows(1, one, 100)) << "it took nothing from others";
  EXPECT_FALSE(knows(2, two, 100)) << "its own oldest went";
  EXPECT_TRUE(knows(2, two, 3900));
  EXPECT_TRUE(knows(1, one, 100));  // which is used now
  learn(3, three);
  EXPECT_TRUE(knows(1, one, 100));
  EXPECT_TRUE(knows(3, three, 100));
  EXPECT_EQ(proposer.PartsOf(2), 1) << "it used its parts longest ago";
}

TEST(SuffixProposer, WhatTheSequenceSaidItselfIsNotOutvoted) {
  SuffixProposer proposer(kLimits);
  for (int i = 0; i < 9; ++i) {
    proposer.Start(0, {.tokens_max = 100, .key = 1});
    End(proposer, 0, {1, 2, 3, 4, 5});
  }
  EXPECT_THAT(DraftsOf(proposer, 1, {6, 1, 2}), ElementsAre(3, 4, 5));
  EXPECT_THAT(DraftsOf(proposer, 1, {1, 2, 7, 8, 9, 1, 2}), ElementsAre(7, 8, 9, 1, 2, 7, 8, 9));
}

TEST(SuffixProposer, WhatIsQuotedIsDraftedAndNotLearned) {
  SuffixProposer proposer(kLimits);
  const Tokens text = {1, 2, 3, 4, 70, 71, 1, 2};  // four of them are quoted
  proposer.Start(0, {.tokens_max = 100, .key = 1, .quoted = 4});
  EXPECT_THAT(SuffixDrafts(proposer, 0, text), ElementsAre(3, 4, 70, 71, 1, 2, 3, 4));
  End(proposer, 0, text);
  EXPECT_THAT(DraftsOf(proposer, 1, {1, 2}), IsEmpty());
  EXPECT_THAT(DraftsOf(proposer, 1, {70, 71}), ElementsAre(1, 2));
}

TEST(SuffixProposer, ALongPromptIsTakenInPieceByPiece) {
  SuffixProposer proposer(kLimits);
  Tokens text = Random(1, 2 * SuffixProposer::kTokensOfCall);
  text.insert(text.end(), text.begin(), text.begin() + 6);
  proposer.Start(0, {.tokens_max = 20'000});
  EXPECT_THAT(SuffixDrafts(proposer, 0, text), IsEmpty());
  EXPECT_THAT(SuffixDrafts(proposer, 0, text), IsEmpty());
  EXPECT_THAT(SuffixDrafts(proposer, 0, text),
              ElementsAreArray(text.begin() + 6, text.begin() + 14));
}

TEST(SuffixProposer, ATextThatDoesNotFitIsKnownFromItsLaterPart) {
  SuffixProposer proposer(kLimits, {.own_bytes = 88'000 * 2, .part_bytes = 88'000, .parts = 1});
  const Tokens text = Random(1, 5000);
  proposer.Start(0, {.tokens_max = 20'000});
  Tokens shown(text.begin(), text.begin() + 4000);
  while (SuffixDrafts(proposer, 0, shown).empty()) {  // it catches up
    shown.insert(shown.end(), shown.end() - 100, shown.end() - 92);
    ASSERT_LT(shown.size(), 6000u);
  }
  shown.insert(shown.end(), text.begin() + 10, text.begin() + 20);
  EXPECT_THAT(SuffixDrafts(proposer, 0, shown), IsEmpty());
}

}  // namespace
}  // namespace sluice::speculate
