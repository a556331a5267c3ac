// Sequences whose masks come late draw nothing and are planned again.
#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

// What `plan` gives when the sequence's mask did not come.
StepResult WithoutTokensOf(SequenceId id, StepResult result) {
  for (batch::ResultEntry& entry : result.entries) {
    if (entry.sequence == id) entry.token_count = 0;
  }
  return result;
}

TEST_F(SchedulerTest, ThePlanSaysWhatWaitsForMasks) {
  Start();
  SequenceSpec spec = Spec(1, Count(20));
  spec.masked = true;
  Add(spec);
  const BatchPlan chunk = Plan();  // 16 of 20 tokens: nothing is drawn
  EXPECT_FALSE(chunk.entries[0].masked);
  Commit(Answer(chunk));
  Add(Spec(2, Count(3)));
  const BatchPlan rest = Plan();
  EXPECT_TRUE(rest.entries[0].masked);
  EXPECT_FALSE(rest.entries[1].masked);
}

TEST_F(SchedulerTest, ALateSequenceIsPlannedAgainFromWhereItStood) {
  Start();
  SequenceSpec spec = Spec(1, Count(3));
  spec.masked = true;
  Add(spec);
  Add(Spec(2, Count(3)));
  Run();
  const BatchPlan late = Plan();
  ASSERT_TRUE(s->Postpone(1));
  s->CheckInvariants();
  const BatchPlan behind = Plan();
  EXPECT_EQ(behind.entries[0].first_position, late.entries[0].first_position);
  EXPECT_EQ(QueryTokens(behind, 0), Tokens{kDrawn});  // and no row of the step before
  EXPECT_EQ(QueryTokens(behind, 1), Tokens{kLastDrawn});
  EXPECT_EQ(Commit(WithoutTokensOf(1, Answer(late))).sequences.size(), 1u);
  EXPECT_EQ(Commit(Answer(behind, 60)).sequences.at(0).drawn, 2);
  EXPECT_EQ(s->Find(1)->tokens.back(), 60);
  const BatchPlan last = Plan();
  ASSERT_TRUE(s->Cancel(1));
  EXPECT_FALSE(s->Postpone(1));
  Commit(WithoutTokensOf(1, Answer(last)));
  RunToTheEnd();
}

TEST_F(SchedulerTest, ALatePromptAndOneThatIsPreemptedBehindIt) {
  Start(Options(), Blocks(5));
  SequenceSpec spec = Spec(2, Count(7), 12);
  spec.masked = true;
  Add(Spec(1, Count(7, 200), 12));
  Add(spec);
  const BatchPlan late = Plan();
  ASSERT_TRUE(s->Postpone(2));
  const BatchPlan behind = Plan();
  EXPECT_EQ(QueryTokens(behind, 1), Tokens{106});
  ASSERT_TRUE(s->Postpone(2));
  Commit(WithoutTokensOf(2, Answer(late)));
  Commit(WithoutTokensOf(2, Answer(behind)));
  EXPECT_EQ(s->Find(2)->computed, 6);
  RunToTheEnd();
  EXPECT_GT(s->Stats().preemptions, 0u);
}

TEST_F(SchedulerTest, DraftsOfALateSequenceAreForgotten) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 3;
  Start(options, Blocks(16));
  SequenceSpec spec = Spec(1, Count(3), 20);
  spec.masked = true;
  Add(spec);
  Run(50);
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{60, 61}));
  const BatchPlan plan = Plan();
  ASSERT_TRUE(s->Postpone(1));
  Commit(WithoutTokensOf(1, Answer(plan)));
  EXPECT_EQ(s->Stats().drafted, 0u);
  const BatchPlan next = Plan();
  EXPECT_EQ(next.entries[0].first_position, 3);
  EXPECT_EQ(QueryTokens(next, 0), Tokens{50});
  EXPECT_TRUE(next.entries[0].masked);
}

// A state is behind its last token and does not go back.
TEST_F(SchedulerTest, ALateSequenceWithStatesIsComputedAgainFromASnapshot) {
  Start(Options(), {{KvKind::kFull, 4, 4, 0, 16}, {KvKind::kState, 8, 8, 0, 6}});
  SequenceSpec spec = Spec(1, Count(10));
  spec.masked = true;
  Add(spec);
  while (s->Find(1)->drawn() == 0) Run();
  const BatchPlan late = Plan();
  ASSERT_TRUE(s->Postpone(1));
  s->CheckInvariants();
  EXPECT_EQ(s->Find(1)->state, SequenceState::kPreempted);
  EXPECT_THAT(Plan().entries, IsEmpty());
  Commit(WithoutTokensOf(1, Answer(late)));
  StepResult empty;
  empty.step = late.step + 1;
  Commit(empty);
  EXPECT_EQ(Plan().entries[0].first_position, 8);
}

}  // namespace
}  // namespace sluice::schedule
