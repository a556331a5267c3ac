#include "engine/drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>

namespace sluice::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<int32_t>;

constexpr int64_t kPatient = 60'000'000;  // microseconds: the drafts are always in time

// Drafts 90, 91, ... and remembers what it was told. Its owner reads that when it has been
// answered, and may hold it up.
class Recorder final : public speculate::Proposer {
 public:
  struct Calls {
    std::vector<std::pair<int32_t, int32_t>> starts;  // slot, tokens_max
    std::vector<uint64_t> keys;
    std::vector<Tokens> seen;
    std::vector<size_t> rooms;
    std::vector<Tokens> ended;
    bool silent = false, throws = false;
    std::atomic<bool> held = false, entered = false;
  };
  explicit Recorder(Calls* calls) : calls_(calls) {}
  void Start(int32_t slot, const speculate::Opening& opening) override {
    calls_->starts.emplace_back(slot, opening.tokens_max);
    calls_->keys.push_back(opening.key);
  }
  speculate::Draft Propose(int32_t, std::span<const int32_t> tokens,
                           std::span<int32_t> drafts) override {
    calls_->seen.emplace_back(tokens.begin(), tokens.end());
    calls_->rooms.push_back(drafts.size());
    calls_->entered = true;
    calls_->entered.notify_all();
    calls_->held.wait(true);
    if (calls_->throws) throw std::runtime_error("no drafts today");
    if (calls_->silent) return {};
    for (size_t i = 0; i < drafts.size(); ++i) drafts[i] = 90 + static_cast<int32_t>(i);
    return {static_cast<int32_t>(drafts.size()), 0};
  }
  // 80 instead of the first draft, and 81 behind it.
  int32_t ProposeAside(int32_t, std::span<speculate::Aside> asides) override {
    asides[0] = {.token = 80, .parent = 0};
    asides[1] = {.token = 81, .parent = 1 + static_cast<int32_t>(calls_->rooms.back())};
    return 2;
  }
  bool End(int32_t, std::span<const int32_t> tokens) override {
    calls_->ended.emplace_back(tokens.begin(), tokens.end());
    return true;
  }

 private:
  Calls* const calls_;
};

class DrafterTest : public testing::Test {
 protected:
  explicit DrafterTest(int blocks = 20, int64_t wait_us = kPatient, bool trees = false)
      : drafter_(std::in_place, std::make_unique<Recorder>(&calls_),
                 DrafterOptions{.slots = 2,
                                .sequence_tokens = 64,
                                .drafts = 3,
                                .adapt = false,
                                .trees = trees,
                                .wait_us = wait_us}) {
    schedule::SchedulerOptions options;
    options.max_num_seqs = 2;
    options.max_batch_tokens = 32;
    options.max_model_len = 64;
    options.max_draft_tokens = 3;
    options.policy = "priority";
    options.draft_trees = trees;
    scheduler_ = std::move(
        schedule::Scheduler::Create(options, {{batch::KvKind::kFull, 4, 4, 0, blocks}}).value());
  }
  ~DrafterTest() override { Release(); }
  schedule::SequenceSpec SpecOf(schedule::SequenceId id, int32_t max_tokens) {
    schedule::SequenceSpec spec;
    spec.id = id;
    spec.prompt = {10, 11, 12};
    spec.max_tokens = max_tokens;
    return spec;
  }
  void Add(schedule::SequenceSpec spec) { ASSERT_TRUE(scheduler_->Add(std::move(spec), 1).ok()); }
  void Add(schedule::SequenceId id, int32_t max_tokens, int32_t priority = 0) {
    schedule::SequenceSpec spec = SpecOf(id, max_tokens);
    spec.priority = priority;
    Add(std::move(spec));
  }
  batch::BatchPlan Plan() {
    drafter_->Take(scheduler_.get());
    batch::BatchPlan plan;
    scheduler_->Plan(2, &plan);
    return plan;
  }
  // Every row of a draft draws it, the others draw 50; then drafts are asked for.
  void Commit(const batch::BatchPlan& plan) {
    batch::StepResult result;
    result.step = plan.step;
    for (const batch::PlanEntry& entry : plan.entries) {
      batch::ResultEntry out{.sequence = entry.sequence};
      out.token_begin = static_cast<int32_t>(result.tokens.size());
      out.token_count = entry.logits_count;
      for (int32_t i = 0; i < entry.logits_count; ++i) {
        const int32_t target = plan.logits_rows[entry.logits_begin + i].target;
        result.tokens.push_back({.id = target >= 0 ? target : 50});
      }
      result.entries.push_back(out);
    }
    schedule::CommitOutcome outcome;
    scheduler_->Commit(result, &outcome);
    drafter_->Hand(result, outcome, *scheduler_, {});
  }
  void Hold() { calls_.held = true; }
  void Release() {
    calls_.held = false;
    calls_.held.notify_all();
  }
  void AwaitLearned(uint64_t count) {
    while (drafter_->totals().learned < count) std::this_thread::yield();
  }

  Recorder::Calls calls_;
  std::optional<Drafter> drafter_;
  std::unique_ptr<schedule::Scheduler> scheduler_;
};

TEST_F(DrafterTest, ShowsWhatIsCommittedAndAttachesWhatItGets) {
  Add(1, 10);
  Commit(Plan());
  const batch::BatchPlan verify = Plan();
  ASSERT_EQ(calls_.starts.size(), 1u);
  EXPECT_EQ(calls_.starts[0].second, 13);
  EXPECT_THAT(calls_.seen, ElementsAre(Tokens{10, 11, 12, 50}));
  EXPECT_THAT(verify.tokens, ElementsAre(50, 90, 91, 92));
  Commit(verify);
  Plan();
  EXPECT_EQ(calls_.seen.back(), (Tokens{10, 11, 12, 50, 90, 91, 92, 50}));
  EXPECT_EQ(calls_.starts.size(), 1u) << "the sequence goes on";
}

TEST_F(DrafterTest, AsksForNoMoreThanTheAnswerHasRoomFor) {
  Add(1, 4);
  Commit(Plan());  // three are left, of which the last is drawn behind the drafts
  const batch::BatchPlan verify = Plan();
  EXPECT_THAT(calls_.rooms, ElementsAre(2));
  Commit(verify);
  EXPECT_FALSE(scheduler_->HasWork());
  EXPECT_EQ(calls_.rooms.size(), 1u) << "it has ended";
}

TEST_F(DrafterTest, ASequenceWithAStepInFlightIsHeldOnlyIfThereAreDrafts) {
  for (const bool silent : {false, true}) {
    calls_.silent = silent;
    Add(silent ? 2 : 1, 20);
    const batch::BatchPlan first = Plan(), second = Plan();
    Commit(first);
    const batch::BatchPlan third = Plan();
    EXPECT_EQ(third.entries.size(), silent ? 1u : 0u);
    Commit(second);
    Commit(third);
    EXPECT_EQ(Plan().tokens.size(), silent ? 1u : 4u);
    scheduler_->Cancel(silent ? 2 : 1);
    schedule::CommitOutcome outcome;
    scheduler_->Fail(third.step + 1, &outcome);
  }
}

class DrafterOfTrees : public DrafterTest {
 protected:
  DrafterOfTrees() : DrafterTest(20, kPatient, /*trees=*/true) {}
};

TEST_F(DrafterOfTrees, WhatWaitsForMasksGetsAWholeChain) {
  schedule::SequenceSpec spec = SpecOf(1, 30);
  spec.masked = true;
  Add(std::move(spec));
  Commit(Plan());
  const batch::BatchPlan plan = Plan();
  EXPECT_THAT(plan.tokens, ElementsAre(50, 90, 91, 92));
  EXPECT_TRUE(plan.parents.empty());
}

// What may come instead of a draft takes the place of those that are less likely, and the rest of
// the chain that of what was hardly ever right.
TEST_F(DrafterOfTrees, AttachesWhatIsLikeliest) {
  Add(1, 30);
  Commit(Plan());
  const batch::BatchPlan first = Plan();
  ASSERT_EQ(first.tokens.size(), 4u);
  EXPECT_EQ(first.entries[0].tree, 0);
  EXPECT_THAT(first.tokens, ElementsAre(50, 90, 91, 80));
  EXPECT_THAT(first.parents, ElementsAre(0, 1, 0));
  // As it turns out, 90 is always right.
  for (int i = 0; i < 6; ++i) {
    batch::BatchPlan plan = i == 0 ? first : Plan();
    batch::StepResult result;
    result.step = plan.step;
    batch::ResultEntry out{.sequence = 1};
    result.tokens = {{.id = 90}, {.id = 91}, {.id = 50}};
    out.token_count = 3;
    result.entries.push_back(out);
    schedule::CommitOutcome outcome;
    scheduler_->Commit(result, &outcome);
    drafter_->Hand(result, outcome, *scheduler_, {});
  }
  const batch::BatchPlan last = Plan();
  EXPECT_THAT(last.tokens, ElementsAre(50, 90, 91, 92));
  EXPECT_EQ(last.entries[0].tree, -1);
}

class DrafterUnderPressure : public DrafterTest {
 protected:
  DrafterUnderPressure() : DrafterTest(5) {}
};

TEST_F(DrafterUnderPressure, ASequenceThatLostItsSlotBeginsAnew) {
  Add(1, 14, 5);
  Commit(Plan());
  Commit(Plan());
  drafter_->Take(scheduler_.get());
  const size_t before = calls_.seen.back().size();
  Add(2, 14);  // more urgent, and the two do not fit
  while (scheduler_->HasWork()) {
    Commit(Plan());
    if (scheduler_->Find(2) == nullptr) AwaitLearned(1);  // the other takes over its slot
  }
  EXPECT_GT(scheduler_->Stats().preemptions, 0u);
  // The first, the more urgent one, and the first again, with all that it had.
  ASSERT_EQ(calls_.starts.size(), 3u);
  EXPECT_GT(before, 4u);
}

TEST_F(DrafterTest, TellsTheKeyAndShowsWhatIsQuotedFirst) {
  schedule::SequenceSpec spec = SpecOf(1, 10);
  spec.draft_key = 77;
  spec.quoted = std::make_shared<const Tokens>(Tokens{5, 6});
  Add(std::move(spec));
  Commit(Plan());
  Commit(Plan());
  Plan();
  EXPECT_THAT(calls_.keys, ElementsAre(77));
  EXPECT_EQ(calls_.starts[0].second, 15);
  EXPECT_THAT(calls_.seen, ElementsAre(Tokens{5, 6, 10, 11, 12, 50},
                                       Tokens{5, 6, 10, 11, 12, 50, 90, 91, 92, 50}));
}

TEST_F(DrafterTest, AnAnswerIsLearnedWholeWhenItEnds) {
  Add(1, 5);
  while (scheduler_->HasWork()) Commit(Plan());
  AwaitLearned(1);
  EXPECT_THAT(calls_.ended, ElementsAre(Tokens{10, 11, 12, 50, 90, 91, 92, 50}));
}

TEST_F(DrafterTest, AnAnswerThatIsStoppedFromOutsideIsLearnedToo) {
  Add(1, 9);
  Commit(Plan());
  Plan();
  ASSERT_TRUE(scheduler_->Finish(1, schedule::FinishReason::kStop));
  drafter_->End(1);
  AwaitLearned(1);
  EXPECT_THAT(calls_.ended, ElementsAre(Tokens{10, 11, 12, 50}));
}

TEST_F(DrafterTest, WhereTheProposerFailsTheSequenceGoesOnWithoutDrafts) {
  calls_.throws = true;
  Add(1, 20);
  Commit(Plan());
  const batch::BatchPlan second = Plan();
  EXPECT_EQ(second.tokens.size(), 1u);
  calls_.throws = false;
  Commit(second);
  Add(2, 20);
  Commit(Plan());
  EXPECT_EQ(Plan().tokens.size(), 1u + 4u) << "the other one has drafts";
  EXPECT_EQ(calls_.seen.size(), 2u) << "the first is asked for no more";
}

class HeldDrafter : public DrafterTest {
 protected:
  HeldDrafter() : DrafterTest(20, 0) {}
  void CommitWhileHeld() {
    Hold();
    Commit(Plan());
    calls_.entered.wait(false);
  }
  void AwaitAnswer() {
    Release();
    while (drafter_->totals().lengths[3] == 0) std::this_thread::yield();
  }
};

TEST_F(HeldDrafter, LateDraftsAreNotVerifiedAndTheTextIsCompletedLater) {
  Add(1, 20);
  CommitWhileHeld();
  const batch::BatchPlan second = Plan();
  EXPECT_EQ(second.tokens.size(), 1u);
  EXPECT_EQ(drafter_->totals().late, 1u);
  Commit(second);  // its desk is still away
  EXPECT_EQ(drafter_->totals().late, 2u);
  AwaitAnswer();
  const batch::BatchPlan third = Plan();
  EXPECT_EQ(third.tokens.size(), 1u) << "these drafts stand behind fewer tokens";
  Commit(third);
  while (drafter_->totals().lengths[3] < 2) std::this_thread::yield();
  EXPECT_EQ(calls_.seen.back(), (Tokens{10, 11, 12, 50, 50, 50}));
  EXPECT_EQ(drafter_->totals().late, 2u);
}

TEST_F(HeldDrafter, ASlotThatChangesHandsMeanwhileGetsNoDraftsOfItsPredecessor) {
  Add(1, 20);
  CommitWhileHeld();
  ASSERT_TRUE(scheduler_->Cancel(1));
  drafter_->End(1);
  Add(2, 20);
  Commit(Plan());
  const batch::BatchPlan second = Plan();
  ASSERT_EQ(second.entries.size(), 1u);
  EXPECT_EQ(second.entries[0].sequence, 2u);
  AwaitAnswer();
  Commit(second);  // now the desk is laid with the new one's text
  while (drafter_->totals().lengths[3] < 2) std::this_thread::yield();
  EXPECT_EQ(calls_.starts.size(), 2u);
  EXPECT_EQ(calls_.seen.back(), (Tokens{10, 11, 12, 50, 50}));
  EXPECT_EQ(Plan().tokens.size(), 4u);
}

TEST_F(HeldDrafter, EndsWhileAProposalIsUnderWay) {
  Add(1, 20);
  Add(2, 20);
  CommitWhileHeld();
  std::thread release([this] { Release(); });
  drafter_.reset();
  release.join();
  EXPECT_LE(calls_.seen.size(), 2u);
}

}  // namespace
}  // namespace sluice::engine
