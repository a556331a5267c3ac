// How many tokens a head guesses, where what steps cost and what they draw is given.
#include "engine/head_drafts.h"

#include <limits>

#include "schedule/scheduler_fixture.h"

namespace sluice::engine {
namespace {

using schedule::Blocks;
using schedule::Count;
using schedule::Options;
using schedule::Spec;

constexpr int32_t kMost = 3;

speculate::DraftCosts Each(float cost) {
  speculate::DraftCosts costs;
  for (size_t i = 0; i < costs.size(); ++i) costs[i] = cost * static_cast<float>(i + 1);
  return costs;
}

class HeadDraftsTest : public schedule::SchedulerTest {
 protected:
  HeadDraftsTest() {
    schedule::SchedulerOptions options = Options();
    options.max_draft_tokens = kMost;
    options.max_model_len = 500;
    Start(options, Blocks(400));
  }
  // One that arrives, as a step loop adds it.
  schedule::SequenceId Arrive() {
    schedule::SequenceSpec spec = Spec(++last_, Count(3), 400);
    spec.device_drafts = heads_.ForArrival();
    Add(spec);
    return last_;
  }
  // A step of the only sequence, of whose drafts the first `right` are right. Gives their number.
  int32_t Step(int32_t right, const speculate::DraftCosts& costs) {
    const batch::BatchPlan plan = Plan();
    batch::StepResult result = Answer(plan);
    const int32_t drafts = plan.entries.at(0).logits_count - 1;
    result.entries.at(0).token_count = 1 + std::min(right, drafts);
    result.tokens.resize(static_cast<size_t>(result.entries.at(0).token_count));
    heads_.Choose(result, Commit(result), {.costs = costs, .rests = rests_}, s.get());
    guesses_ = plan.guesses;
    return drafts;
  }
  // The number after a while.
  int32_t Settled(int32_t right, const speculate::DraftCosts& costs) {
    for (int i = 0; i < 40; ++i) Step(right, costs);
    return Step(right, costs);
  }
  HeadDrafts heads_{{.slots = Options().max_num_seqs, .drafts = kMost}};
  schedule::SequenceId last_ = 0;
  int32_t guesses_ = 0;  // of the last plan
  bool rests_ = false;
};

TEST_F(HeadDraftsTest, AsManyAsPay) {
  for (const int32_t right : {1, 2, 3}) {
    const schedule::SequenceId id = Arrive();
    EXPECT_EQ(Settled(right, Each(0.2F)), right);
    EXPECT_EQ(guesses_, right);
    s->Cancel(id);
  }
  EXPECT_GT(heads_.totals().lengths[2], 20u);
}

TEST_F(HeadDraftsTest, AStepThatIsMeasuredHasNone) {
  const schedule::SequenceId id = Arrive();
  EXPECT_EQ(Settled(3, Each(0.2F)), 3);
  Step(3, Each(std::numeric_limits<float>::infinity()));
  EXPECT_EQ(Step(3, Each(0.2F)), 0);
  EXPECT_EQ(guesses_, 0) << "the head takes note of the tokens";
  EXPECT_EQ(Step(3, Each(0.2F)), 0) << "nothing was guessed";
  EXPECT_EQ(Step(3, Each(0.2F)), 3);
  s->Cancel(id);
}

TEST_F(HeadDraftsTest, ASequenceThatLosesIsGivenUpAndOthersAreNotTriedButNowAndThen) {
  int steps = 0, tried = 0;
  for (int arrival = 0; arrival < 200; ++arrival) {
    const schedule::SequenceId id = Arrive();
    const bool tries = s->Find(id)->spec.device_drafts > 0;
    tried += tries && arrival >= 100 ? 1 : 0;
    for (int i = 0; i < 60; ++i) {
      const int32_t drafts = Step(0, Each(0.2F));
      steps += drafts > 0 && arrival >= 100 ? 1 : 0;
    }
    EXPECT_EQ(guesses_, -1) << "its steps are those of a model without a head";
    s->Cancel(id);
  }
  EXPECT_GE(tried, 3);
  EXPECT_LE(tried, 7);
  EXPECT_LE(steps, 20 * tried);
  // They pay again: one that is tried shows it to the others.
  int with = 0;
  for (int arrival = 0; arrival < 100; ++arrival) {
    const schedule::SequenceId id = Arrive();
    with += s->Find(id)->spec.device_drafts > 0 ? 1 : 0;
    for (int i = 0; i < 30; ++i) Step(3, Each(0.2F));
    s->Cancel(id);
  }
  EXPECT_GT(with, 30);
}

TEST_F(HeadDraftsTest, WhereDraftsRestNobodyHasAny) {
  schedule::SequenceId id = Arrive();
  EXPECT_EQ(Settled(3, Each(0.2F)), 3);
  rests_ = true;
  Step(3, Each(0.2F));
  Step(3, Each(0.2F));
  EXPECT_EQ(Step(3, Each(0.2F)), 0);
  EXPECT_EQ(guesses_, -1);
  s->Cancel(id);
  id = Arrive();
  EXPECT_EQ(s->Find(id)->spec.device_drafts, 0);
  rests_ = false;
  Step(0, Each(0.2F));
  s->Cancel(id);
  id = Arrive();
  EXPECT_EQ(s->Find(id)->spec.device_drafts, kMost);
  s->Cancel(id);
}

}  // namespace
}  // namespace sluice::engine
