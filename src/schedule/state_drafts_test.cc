// Drafts of sequences whose states are kept behind the tokens of a step.
#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

class StateDrafts : public SchedulerTest {
 protected:
  void StartWith(int32_t states) {
    SchedulerOptions options = Options();
    options.max_draft_tokens = states - 1;
    KvGroup state = {KvKind::kState, 8, 8, 0, 6};
    state.states = states;
    Start(options, {{KvKind::kFull, 4, 4, 0, 16}, state});
  }
  // Of the verified tokens so many were drawn.
  static StepResult Kept(const BatchPlan& plan, int32_t count) {
    StepResult result = Answer(plan);
    result.tokens.resize(static_cast<size_t>(count));
    result.entries.at(0).token_count = count;
    return result;
  }
};

TEST_F(StateDrafts, TheNextStepGoesOnBehindTheLastOneThatWasRight) {
  StartWith(4);
  Add(Spec(1, Count(2)));
  Run();
  EXPECT_TRUE(s->AttachDrafts(1, Tokens{7, 8, 9, 10}));
  const BatchPlan verify = Plan();
  EXPECT_EQ(QueryTokens(verify, 0), (Tokens{kDrawn, 7, 8, 9}));
  Commit(Kept(verify, 2));
  EXPECT_EQ(Plan().entries[0].first_position, 4);
}

TEST_F(StateDrafts, AStepWithDraftsEndsAtABorderBetweenBlocks) {
  StartWith(4);
  Add(Spec(1, Count(6)));
  Run();
  EXPECT_TRUE(s->AttachDrafts(1, Tokens{7, 8, 9}));
  const BatchPlan verify = Plan();
  EXPECT_EQ(verify.entries[0].first_position, 6);
  EXPECT_EQ(QueryTokens(verify, 0), (Tokens{kDrawn, 7}));
}

// The state before the step would be overwritten by the one behind its last token.
TEST_F(StateDrafts, AStepThatMayComeToNothingLeavesTheStateBeforeIt) {
  StartWith(4);
  SequenceSpec spec = Spec(1, Count(2));
  spec.masked = true;
  Add(spec);
  Run();
  EXPECT_TRUE(s->AttachDrafts(1, Tokens{7, 8, 9}));
  const BatchPlan verify = Plan();
  EXPECT_EQ(QueryTokens(verify, 0), (Tokens{kDrawn, 7, 8}));
  ASSERT_TRUE(s->Postpone(1));
  Commit(Kept(verify, 0));
  EXPECT_EQ(Plan().entries[0].first_position, 2);
}

TEST_F(StateDrafts, MoreDraftsThanStatesAreADefect) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 1;
  const Status status = Scheduler::Create(options, {{KvKind::kState, 8, 8, 0, 6}}).status();
  EXPECT_EQ(status.field(), "max_draft_tokens");
}

}  // namespace
}  // namespace sluice::schedule
