#include "speculate/ngram_proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace sluice::speculate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<int32_t>;

constexpr int32_t kDrafts = 8;
// Of the tests that fill a table so far that a run may find no place, which depends on the seed.
constexpr HashSeed kSeed = {.text = 0x2545F4914F6CDD1D, .state = 0xD1342543DE82EF95, .end = 0};

Tokens Drafts(Proposer& proposer, int32_t slot, const Tokens& tokens, int32_t most = kDrafts) {
  Tokens drafts(most);
  drafts.resize(proposer.Propose(slot, tokens, drafts).count);
  return drafts;
}

// What Drafts gives, by the definition: from `begin` on, the longest of the last 5 to 2 tokens that
// stood there before, where it stood last.
Tokens ByDefinition(const Tokens& tokens, int32_t begin = 0) {
  const auto size = static_cast<int32_t>(tokens.size());
  for (int32_t length = 5; length >= 2; --length) {
    for (int32_t end = size - 2; end - length + 1 >= begin; --end) {
      if (!std::equal(tokens.end() - length, tokens.end(), tokens.begin() + end - length + 1)) {
        continue;
      }
      Tokens text(tokens.begin() + end + 1, tokens.end());
      while (static_cast<int32_t>(text.size()) < kDrafts)
        text.push_back(text[text.size() - (size - 1 - end)]);
      text.resize(kDrafts);
      return text;
    }
  }
  return {};
}

TEST(NgramProposer, DraftsWhatFollowedTheLongestRunAndOfThoseTheMostRecent) {
  NgramProposer proposer({.slots = 1, .tokens_max = 100});
  proposer.Start(0, {.tokens_max = 100});
  // The last three tokens stood once, the last two later again.
  const Tokens tokens = {1, 2, 3, 40, 41, 9, 2, 3, 50, 51, 2, 3, 52, 1, 2, 3};
  EXPECT_THAT(Drafts(proposer, 0, tokens, 3), ElementsAre(40, 41, 9));
  Tokens shorter = tokens;
  shorter[13] = 8;
  proposer.Start(0, {.tokens_max = 100});
  EXPECT_THAT(Drafts(proposer, 0, shorter, 3), ElementsAre(52, 8, 2));
}

TEST(NgramProposer, TellsHowLongTheRunWas) {
  NgramProposer proposer({.slots = 1, .tokens_max = 100});
  Tokens drafts(kDrafts);
  for (int32_t length = 2; length <= 6; ++length) {
    proposer.Start(0, {.tokens_max = 100});
    Tokens tokens;
    for (int copy = 0; copy < 2; ++copy) {
      tokens.push_back(50 + copy);
      for (int32_t i = 0; i < length; ++i) tokens.push_back(i);
    }
    EXPECT_EQ(proposer.Propose(0, tokens, drafts).grade, std::min(length, 5) - 2);
  }
}

TEST(NgramProposer, OneTokenIsNoRun) {
  NgramProposer proposer({.slots = 1, .tokens_max = 100});
  proposer.Start(0, {.tokens_max = 100});
  EXPECT_THAT(Drafts(proposer, 0, {7}), IsEmpty());
  EXPECT_THAT(Drafts(proposer, 0, {7, 8, 7}), IsEmpty());
  EXPECT_THAT(Drafts(proposer, 0, {7, 8, 7, 8}, 3), ElementsAre(7, 8, 7));
}

TEST(NgramProposer, GivesTheDefinitionsDraftsHoweverItsTokensCome) {
  std::mt19937 random(1);
  NgramProposer proposer({.slots = 3, .tokens_max = 3000}, NgramProposer::kBytesMax, kSeed);
  std::vector<Tokens> texts(3);
  for (int32_t slot = 0; slot < 3; ++slot) proposer.Start(slot, {.tokens_max = 3000});
  int drafted = 0;
  for (int step = 0; step < 900; ++step) {
    const auto slot = static_cast<int32_t>(random() % 3);
    Tokens& text = texts[slot];
    if (random() % 100 == 0) {
      text.clear();
      proposer.Start(slot, {.tokens_max = 3000});
    }
    const uint32_t vocabulary = slot == 0 ? 3 : slot == 1 ? 30 : 100'000;
    for (uint32_t i = random() % 12 + 1; i > 0; --i) {
      text.push_back(static_cast<int32_t>(random() % vocabulary));
    }
    if (random() % 3 == 0 && text.size() > 30) {  // quotes itself
      const size_t from = random() % (text.size() - 20);
      for (int i = 0; i < 12; ++i) text.push_back(text[from + i]);
    }
    const Tokens drafts = Drafts(proposer, slot, text);
    ASSERT_EQ(drafts, ByDefinition(text)) << "slot " << slot << ", " << text.size() << " tokens";
    drafted += !drafts.empty();
  }
  EXPECT_GT(drafted, 300);
}

TEST(NgramProposer, ALongPromptIsIndexedPieceByPiece) {
  constexpr int32_t kTokens = 2 * NgramProposer::kTokensOfCall + 10;
  NgramProposer proposer({.slots = 1, .tokens_max = kTokens + 10});
  proposer.Start(0, {.tokens_max = kTokens + 10});
  Tokens text(kTokens);
  for (int32_t i = 0; i < kTokens; ++i) text[i] = i % 5000;
  EXPECT_THAT(Drafts(proposer, 0, text), IsEmpty());
  text.push_back(kTokens % 5000);
  EXPECT_THAT(Drafts(proposer, 0, text), IsEmpty());
  EXPECT_EQ(Drafts(proposer, 0, text), ByDefinition(text));
  EXPECT_EQ(Drafts(proposer, 0, text), ByDefinition(text));  // nothing new
}

TEST(NgramProposer, ItsMemoryIsBoundedAndForgetsTheOldest) {
  NgramProposer proposer({.slots = 4, .tokens_max = 1 << 24}, 4 * 4096 * sizeof(uint32_t), kSeed);
  const int32_t room = 768;  // of a table of so many bytes
  std::mt19937 random(2);
  Tokens text;
  for (int32_t slot = 0; slot < 4; ++slot) proposer.Start(slot, {.tokens_max = 1 << 24});
  int32_t begin = 0, forgot = 0;
  for (int step = 0; step < 3000; ++step) {
    text.push_back(static_cast<int32_t>(random() % 4000));
    if (random() % 20 == 0 && text.size() > 200) {
      const size_t from = text.size() - 100 - random() % 100;
      for (int i = 0; i < 8; ++i) text.push_back(text[from + i]);
    }
    const Tokens drafts = Drafts(proposer, 2, text);
    if (drafts != ByDefinition(text, begin)) {  // it has begun anew with the later half
      begin = static_cast<int32_t>(text.size()) - room / 2;
      ++forgot;
      ASSERT_EQ(drafts, ByDefinition(text, begin)) << text.size();
    }
  }
  EXPECT_LE(forgot, static_cast<int32_t>(text.size()) / (room / 2));
  EXPECT_EQ(Drafts(proposer, 1, {5, 6, 5, 6}, 2), (Tokens{5, 6}));  // the others are as they were
}

// Tokens whose pairs are all looked for from the same place of a table of `size` entries.
std::vector<std::pair<int32_t, int32_t>> CollidingPairs(size_t count, uint64_t size,
                                                        const HashSeed& seed) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (int32_t first = 1000; pairs.size() < count; ++first) {
    for (int32_t last = 500'000; last < 510'000; ++last) {
      const uint64_t hash =
          NgramProposer::Extend(NgramProposer::Extend(0, last, seed), first, seed);
      if ((hash & (size - 1)) != 0) continue;
      pairs.emplace_back(first, last);
      break;  // no two pairs begin with the same token
    }
  }
  return pairs;
}

TEST(NgramProposer, LooksAtABoundedNumberOfPlacesWhoeverChoseTheTokens) {
  constexpr int32_t kTokens = 90'000;
  constexpr uint64_t kEntries = 1 << 19;  // for so many tokens, which leaves most of them free
  const auto pairs = CollidingPairs(2 * NgramProposer::kProbesMax, kEntries, kSeed);
  int32_t other = 1'000'000;
  Tokens text;
  for (const auto& [first, last] : pairs) text.insert(text.end(), {first, last, other++});
  // How many of the pairs are known when they come again.
  const auto known = [&](const HashSeed& seed) {
    NgramProposer proposer({.slots = 1, .tokens_max = kTokens}, NgramProposer::kBytesMax, seed);
    proposer.Start(0, {.tokens_max = kTokens});
    Tokens tokens = text;
    int32_t count = 0;
    for (const auto& [first, last] : pairs) {
      tokens.insert(tokens.end(), {other++, first, last});
      count += !Drafts(proposer, 0, tokens).empty();
    }
    return count;
  };
  EXPECT_EQ(known(kSeed), NgramProposer::kProbesMax);
  HashSeed unknown = kSeed;
  unknown.text ^= uint64_t{1} << 40;
  EXPECT_EQ(known(unknown), static_cast<int32_t>(pairs.size()));
  EXPECT_EQ(known(DrawHashSeed()), static_cast<int32_t>(pairs.size()));
}

TEST(NgramProposer, ALongPromptLeavesTimeOfItsStepToTheOthers) {
  constexpr int32_t kTokens = 3 * NgramProposer::kTokensOfCall;
  NgramProposer proposer({.slots = 20, .tokens_max = kTokens + 10});
  Tokens text(kTokens);
  for (int32_t i = 0; i < kTokens; ++i) text[i] = i % 5000;
  for (int32_t slot = 0; slot < 20; ++slot) proposer.Start(slot, {.tokens_max = kTokens + 10});
  // After a long prompt a short one has drafts in its first step, but not after many.
  EXPECT_THAT(Drafts(proposer, 0, text), IsEmpty());
  EXPECT_THAT(Drafts(proposer, 1, {5, 6, 5, 6}, 2), ElementsAre(5, 6));
  for (int32_t slot = 2; slot < 19; ++slot) EXPECT_THAT(Drafts(proposer, slot, text), IsEmpty());
  EXPECT_THAT(Drafts(proposer, 19, {5, 6, 5, 6}, 2), IsEmpty());
  EXPECT_THAT(Drafts(proposer, 19, {5, 6, 5, 6}, 2), ElementsAre(5, 6));  // the next step
}

}  // namespace
}  // namespace sluice::speculate
