#include "sample/slot_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::sample {
namespace {

constexpr int64_t kStateVocab = 16;

batch::SlotStart Start(std::vector<int32_t> prompt, std::vector<int32_t> answered = {}) {
  batch::SlotStart start;
  start.prompt_tokens = static_cast<int32_t>(prompt.size());
  start.history = std::move(prompt);
  start.history.insert(start.history.end(), answered.begin(), answered.end());
  return start;
}

// With the penalties that the sampler copies into it.
ops::SampleRow RowOf(const SlotState& slot) {
  return {.repetition_penalty = slot.params().repetition_penalty,
          .presence_penalty = slot.params().presence_penalty,
          .frequency_penalty = slot.params().frequency_penalty};
}

std::vector<ops::LogitEdit> Edits(const SlotState& slot) {
  std::vector<ops::LogitEdit> edits;
  slot.AppendEdits(kStateVocab, RowOf(slot), &edits);
  return edits;
}

std::vector<int32_t> Banned(const SlotState& slot) {
  std::vector<int32_t> ids;
  for (const ops::LogitEdit& edit : Edits(slot)) {
    if (edit.banned) ids.push_back(edit.id);
  }
  return ids;
}

TEST(SlotState, ThePlainRequestEditsNothing) {
  SlotState slot;
  slot.Start(Start({1, 2, 3}, {4}), false);
  EXPECT_TRUE(Edits(slot).empty());
  EXPECT_EQ(slot.drawn(), 1);
}

TEST(SlotState, RepetitionCountsPromptAndAnswerTheOthersTheAnswerAlone) {
  SlotState slot;
  batch::SlotStart start = Start({5, 6, 6}, {7});
  start.sampling.repetition_penalty = 1.5f;
  start.sampling.presence_penalty = 0.25f;
  start.sampling.frequency_penalty = 0.5f;
  slot.Start(start, false);
  slot.Append(7);
  slot.Append(6);
  const std::vector<ops::LogitEdit> edits = Edits(slot);
  ASSERT_EQ(edits.size(), 3u);
  EXPECT_EQ(edits[0].id, 5);
  EXPECT_EQ(edits[0].repetition, 1.5f);
  EXPECT_EQ(edits[0].subtract, 0.0f);
  EXPECT_EQ(edits[1].id, 6);
  EXPECT_EQ(edits[1].subtract, 0.75f);
  EXPECT_EQ(edits[2].id, 7);
  EXPECT_EQ(edits[2].repetition, 1.5f);
  EXPECT_EQ(edits[2].subtract, 1.25f);
}

TEST(SlotState, RemoveLastTakesBackWhatAppendCounted) {
  SlotState slot;
  batch::SlotStart start = Start({5}, {6});
  start.sampling.frequency_penalty = 1.0f;
  slot.Start(start, false);
  slot.Append(6);
  slot.Append(9);
  slot.RemoveLast();
  slot.RemoveLast();
  const std::vector<ops::LogitEdit> edits = Edits(slot);
  ASSERT_EQ(edits.size(), 2u);
  EXPECT_EQ(edits[1].id, 6);
  EXPECT_EQ(edits[1].subtract, 1.0f);
  EXPECT_EQ(slot.drawn(), 1);
}

TEST(SlotState, RemovingTheFirstAnswerTokenLeavesThePromptsUnpenalised) {
  SlotState slot;
  batch::SlotStart start = Start({5, 6});
  start.sampling.presence_penalty = 1.0f;
  slot.Start(start, false);
  slot.Append(6);
  slot.RemoveLast();
  const std::vector<ops::LogitEdit> edits = Edits(slot);
  ASSERT_EQ(edits.size(), 2u);
  EXPECT_EQ(edits[1].id, 6);
  EXPECT_EQ(edits[1].subtract, 0.0f);
}

TEST(SlotState, IdsOutsideTheVocabularyAreDropped) {
  SlotState slot;
  batch::SlotStart start = Start({-3, 1, 16, 1 << 30});
  start.sampling.repetition_penalty = 2.0f;
  start.sampling.logit_bias = {{-1, 1.0f}, {16, 1.0f}, {15, 1.0f}};
  start.sampling.min_tokens = 5;
  start.sampling.end_ids = {99, -7, 0};
  start.sampling.no_repeat_ngram = 1;
  slot.Start(start, false);
  std::vector<int32_t> ids;
  for (const ops::LogitEdit& edit : Edits(slot)) ids.push_back(edit.id);
  EXPECT_THAT(ids, ::testing::ElementsAre(0, 1, 15));
}

TEST(SlotState, EditsOfOneIdAreJoinedAndAscending) {
  SlotState slot;
  batch::SlotStart start = Start({8}, {3});
  start.sampling.repetition_penalty = 2.0f;
  start.sampling.presence_penalty = 1.0f;
  start.sampling.logit_bias = {{8, 0.5f}, {3, 4.0f}, {8, 0.25f}};
  start.sampling.min_tokens = 2;
  start.sampling.end_ids = {3};
  slot.Start(start, false);
  std::vector<ops::LogitEdit> edits = {{.id = 77}};  // of the row before
  slot.AppendEdits(kStateVocab, RowOf(slot), &edits);
  ASSERT_EQ(edits.size(), 3u);
  EXPECT_EQ(edits[0].id, 77);
  EXPECT_EQ(edits[1].id, 3);
  EXPECT_EQ(edits[1].bias, 4.0f);
  EXPECT_EQ(edits[1].repetition, 2.0f);
  EXPECT_EQ(edits[1].subtract, 1.0f);
  EXPECT_TRUE(edits[1].banned);
  EXPECT_EQ(edits[2].id, 8);
  EXPECT_EQ(edits[2].bias, 0.75f);
  EXPECT_FALSE(edits[2].banned);
}

TEST(SlotState, NoRepeatNgramBansWhatWouldRepeatOne) {
  SlotState slot;
  batch::SlotStart start = Start({1, 2, 3, 1, 2, 4}, {1, 2});
  start.sampling.no_repeat_ngram = 3;
  slot.Start(start, false);
  EXPECT_THAT(Banned(slot), ::testing::ElementsAre(3, 4));
  start.sampling.no_repeat_ngram = 1;
  slot.Start(start, false);
  EXPECT_THAT(Banned(slot), ::testing::ElementsAre(1, 2, 3, 4));
  for (const int off : {0, -2, 9, 1024}) {  // off, or longer than the history
    start.sampling.no_repeat_ngram = off;
    slot.Start(start, false);
    EXPECT_TRUE(Banned(slot).empty()) << off;
  }
}

TEST(SlotState, AnNgramMayOverlapItself) {
  SlotState slot;
  batch::SlotStart start = Start({7, 7});
  start.sampling.no_repeat_ngram = 2;
  slot.Start(start, false);
  EXPECT_THAT(Banned(slot), ::testing::ElementsAre(7));
}

TEST(SlotState, EndIdsAreBannedUntilMinTokensWereDrawn) {
  SlotState slot;
  batch::SlotStart start = Start({1, 2}, {5});  // one was drawn before a preemption
  start.sampling.min_tokens = 2;
  start.sampling.end_ids = {2, 3};
  slot.Start(start, false);
  EXPECT_THAT(Banned(slot), ::testing::ElementsAre(2, 3));
  slot.Append(6);
  EXPECT_TRUE(Banned(slot).empty());
}

TEST(SlotState, ANewStartForgetsTheSequenceBefore) {
  SlotState slot;
  batch::SlotStart start = Start({1}, {2, 2});
  start.sampling.frequency_penalty = 1.0f;
  slot.Start(start, false);
  start = Start({9});
  start.sampling.frequency_penalty = 1.0f;
  slot.Start(start, false);
  const std::vector<ops::LogitEdit> edits = Edits(slot);
  ASSERT_EQ(edits.size(), 1u);
  EXPECT_EQ(edits[0].id, 9);
  EXPECT_EQ(edits[0].subtract, 0.0f);
  EXPECT_EQ(slot.drawn(), 0);
}

TEST(SlotState, CountsOfTheDeviceAreNoEdits) {
  SlotState slot;
  batch::SlotStart start = Start({5, 6, 6, -3, 16}, {7, 6, 7});
  start.sampling.frequency_penalty = 1.0f;
  start.sampling.logit_bias = {{6, 0.5f}};
  slot.Start(start, true);
  EXPECT_TRUE(slot.counts_on_device() && slot.counts_lost());
  const std::vector<ops::LogitEdit> edits = Edits(slot);
  ASSERT_EQ(edits.size(), 1u);
  EXPECT_EQ(edits[0].bias, 0.5f);
  EXPECT_EQ(edits[0].subtract, 0.0f);
  slot.Append(5);
  std::vector<uint32_t> tally(kStateVocab);
  std::vector<int32_t> words = {99};  // of the slot before
  slot.AppendCounts(tally, &words);
  constexpr auto kIn = static_cast<int32_t>(ops::kInPrompt);
  EXPECT_THAT(words, ::testing::ElementsAre(99, 5, kIn + 1, 6, kIn + 1, 7, 2));
  EXPECT_EQ(tally, std::vector<uint32_t>(kStateVocab));
  slot.SetCounts();
  EXPECT_FALSE(slot.counts_lost());
  start.sampling.frequency_penalty = 0.0f;
  slot.Start(start, true);
  EXPECT_FALSE(slot.counts_on_device()) << "nothing is penalised";
}

}  // namespace
}  // namespace sluice::sample
