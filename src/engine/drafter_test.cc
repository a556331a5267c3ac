#include "engine/drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<int32_t>;

// Drafts 90, 91, ... and remembers what it was told.
class Recorder final : public speculate::Proposer {
 public:
  struct Calls {
    std::vector<std::pair<int32_t, int32_t>> starts;  // slot, tokens_max
    std::vector<Tokens> seen;
    std::vector<size_t> rooms;
    bool silent = false;
  };
  explicit Recorder(Calls* calls) : calls_(calls) {}
  void Start(int32_t slot, int32_t tokens_max) override {
    calls_->starts.emplace_back(slot, tokens_max);
  }
  int32_t Propose(int32_t, std::span<const int32_t> tokens, std::span<int32_t> drafts) override {
    calls_->seen.emplace_back(tokens.begin(), tokens.end());
    calls_->rooms.push_back(drafts.size());
    if (calls_->silent) return 0;
    for (size_t i = 0; i < drafts.size(); ++i) drafts[i] = 90 + static_cast<int32_t>(i);
    return static_cast<int32_t>(drafts.size());
  }

 private:
  Calls* const calls_;
};

class DrafterTest : public testing::Test {
 protected:
  explicit DrafterTest(int blocks = 20) {
    schedule::SchedulerOptions options;
    options.max_num_seqs = 2;
    options.max_batch_tokens = 32;
    options.max_model_len = 64;
    options.max_draft_tokens = 3;
    options.policy = "priority";
    scheduler_ = std::move(
        schedule::Scheduler::Create(options, {{batch::KvKind::kFull, 4, 4, 0, blocks}}).value());
  }
  void Add(schedule::SequenceId id, int32_t max_tokens, int32_t priority = 0) {
    schedule::SequenceSpec spec;
    spec.id = id;
    spec.prompt = {10, 11, 12};
    spec.max_tokens = max_tokens;
    spec.priority = priority;
    ASSERT_TRUE(scheduler_->Add(std::move(spec), 1).ok());
  }
  batch::BatchPlan Plan() {
    batch::BatchPlan plan;
    scheduler_->Plan(2, &plan);
    return plan;
  }
  // Every row of a draft draws it, the others draw 50; then drafts are proposed.
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
    drafter_.Propose(outcome, scheduler_.get());
  }

  Recorder::Calls calls_;
  Drafter drafter_{std::make_unique<Recorder>(&calls_), 3};
  std::unique_ptr<schedule::Scheduler> scheduler_;
};

TEST_F(DrafterTest, ShowsWhatIsCommittedAndAttachesWhatItGets) {
  Add(1, 10);
  Commit(Plan());
  ASSERT_EQ(calls_.starts.size(), 1u);
  EXPECT_EQ(calls_.starts[0].second, 13);
  EXPECT_THAT(calls_.seen, ElementsAre(Tokens{10, 11, 12, 50}));
  const batch::BatchPlan verify = Plan();
  EXPECT_THAT(verify.tokens, ElementsAre(50, 90, 91, 92));
  Commit(verify);
  EXPECT_EQ(calls_.seen.back(), (Tokens{10, 11, 12, 50, 90, 91, 92, 50}));
  EXPECT_EQ(calls_.starts.size(), 1u) << "the sequence goes on";
}

TEST_F(DrafterTest, AsksForNoMoreThanTheAnswerHasRoomFor) {
  Add(1, 4);
  Commit(Plan());  // three are left, of which the last is drawn behind the drafts
  EXPECT_THAT(calls_.rooms, ElementsAre(2));
  Commit(Plan());
  EXPECT_FALSE(scheduler_->HasWork());
  EXPECT_EQ(calls_.rooms.size(), 1u) << "it has ended";
}

TEST_F(DrafterTest, ASequenceWithAStepInFlightIsHeldOnlyIfThereAreDrafts) {
  for (const bool silent : {false, true}) {
    calls_ = {};
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

class DrafterUnderPressure : public DrafterTest {
 protected:
  DrafterUnderPressure() : DrafterTest(5) {}
};

TEST_F(DrafterUnderPressure, ASequenceThatLostItsSlotBeginsAnew) {
  Add(1, 14, 5);
  Commit(Plan());
  Commit(Plan());
  const size_t before = calls_.seen.back().size();
  Add(2, 14);  // more urgent, and the two do not fit
  while (scheduler_->HasWork()) Commit(Plan());
  EXPECT_GT(scheduler_->Stats().preemptions, 0u);
  // The first, the more urgent one, and the first again, with all that it had.
  ASSERT_EQ(calls_.starts.size(), 3u);
  EXPECT_GT(before, 4u);
}

}  // namespace
}  // namespace sluice::engine
