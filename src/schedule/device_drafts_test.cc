// Plans whose drafts the runner makes.
#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

// Steps with drafts that the runner makes, planned ahead.
class DeviceDrafts : public SchedulerTest {
 protected:
  static SequenceSpec Drafting(SequenceId id, int32_t max_tokens = 20) {
    SequenceSpec spec = Spec(id, Count(3), max_tokens);
    spec.device_drafts = 3;
    return spec;
  }
  void StartDrafting() {
    SchedulerOptions options = Options();
    options.max_draft_tokens = 2;
    Start(options, Blocks(16));
  }
  // Of the verified tokens so many were drawn.
  static StepResult Kept(const BatchPlan& plan, int32_t count) {
    StepResult result = Answer(plan);
    result.tokens.resize(static_cast<size_t>(count));
    result.entries.at(0).token_count = count;
    return result;
  }
};

TEST_F(DeviceDrafts, AStepIsPlannedBeforeItIsKnownHowFarTheOneBeforeWasRight) {
  StartDrafting();
  Add(Drafting(1));
  const BatchPlan prompt = Plan(), first = Plan();
  EXPECT_EQ(QueryTokens(first, 0),
            (Tokens{kLastDrawn, batch::KnownToken(1), batch::KnownToken(2)}));
  EXPECT_EQ(first.entries[0].first_position, 3);
  EXPECT_EQ(first.entries[0].unsure, 0);
  ASSERT_EQ(first.logits_rows.size(), 3u);
  EXPECT_EQ(first.logits_rows[0].target, batch::KnownToken(1));
  EXPECT_EQ(first.logits_rows[2].target, -1);
  Commit(Answer(prompt));
  const BatchPlan second = Plan();
  EXPECT_EQ(second.entries[0].first_position, 6);
  EXPECT_EQ(second.entries[0].unsure, 2);
  EXPECT_EQ(second.entries[0].query_tokens, 3);
  EXPECT_EQ(Commit(Kept(first, 1)).sequences.at(0).accepted, 0);
  EXPECT_EQ(s->Find(1)->computed, 4);
  const BatchPlan third = Plan();  // the second began at 4
  EXPECT_EQ(third.entries[0].first_position, 7);
  EXPECT_EQ(third.entries[0].unsure, 2);
  EXPECT_EQ(Commit(Kept(second, 3)).sequences.at(0).accepted, 2);
  EXPECT_EQ(s->Find(1)->computed, 7);
  Commit(Kept(third, 2));
  const BatchPlan fourth = Plan();  // nothing is in flight
  EXPECT_EQ(fourth.entries[0].first_position, 9);
  EXPECT_EQ(fourth.entries[0].unsure, 0);
  EXPECT_EQ(QueryTokens(fourth, 0), (Tokens{kDrawn, batch::KnownToken(1), batch::KnownToken(2)}));
}

TEST_F(DeviceDrafts, NoStepIsPlannedPastTheLastTokenThatMayHaveBeenDrawn) {
  StartDrafting();
  Add(Drafting(1, 5));
  const BatchPlan prompt = Plan(), first = Plan();
  EXPECT_EQ(first.entries[0].query_tokens, 3);  // four of five tokens, if all are right
  Commit(Answer(prompt));
  const BatchPlan second = Plan();
  EXPECT_EQ(second.entries[0].query_tokens, 1);
  EXPECT_EQ(second.entries[0].unsure, 2);
  Commit(Kept(first, 1));
  EXPECT_EQ(Plan().entries.size(), 1u);
}

// The tokens before a row decide on its mask, its bans and its edits.
TEST_F(DeviceDrafts, WhoseRowsDependOnTheTokensBeforeThemDrawsOneAtATime) {
  StartDrafting();
  SequenceSpec masked = Drafting(1), banned = Drafting(2), early = Drafting(3);
  masked.masked = banned.no_overlap = true;
  early.sampling.min_tokens = 2;
  for (const SequenceSpec& spec : {masked, banned, early}) Add(spec);
  Run();
  for (int i = 0; i < 2; ++i) {
    const BatchPlan plan = Plan();
    ASSERT_EQ(plan.entries.size(), 3u);
    for (const batch::PlanEntry& entry : plan.entries)
      EXPECT_EQ(entry.query_tokens, entry.sequence == 3 && i == 1 ? 3 : 1) << entry.sequence;
    Commit(Answer(plan));
  }
}

// Its guesses are those of who had the slot before.
TEST_F(DeviceDrafts, NothingIsGuessedBeforeATokenWasDrawnInTheSlot) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 2;
  options.max_batch_tokens = 4;
  Start(options, Blocks(16));
  SequenceSpec spec = Drafting(1);
  spec.prompt = Count(9);
  Add(spec);
  for (const int32_t tokens : {4, 4, 1, 3}) {
    const BatchPlan plan = Plan();
    EXPECT_EQ(plan.entries[0].query_tokens, tokens);
    Commit(Answer(plan));
  }
}

// Blocks of four tokens: what is drawn and all guesses but the last may be computed.
TEST_F(DeviceDrafts, GuessesHaveRoomBehindTheTokensOfTheirStep) {
  StartDrafting();
  Add(Drafting(1));
  const BatchPlan prompt = Plan();
  EXPECT_EQ(prompt.entries[0].guesses, 2);
  EXPECT_EQ(prompt.groups[0].Width(0), 2);  // three tokens, what they draw and a guess
  const BatchPlan first = Plan();
  EXPECT_EQ(first.entries[0].guesses, 2);
  EXPECT_EQ(first.groups[0].Width(0), 2);
  Commit(Answer(prompt));
  const BatchPlan second = Plan();  // up to position 9, if all drafts are right
  EXPECT_EQ(second.groups[0].Width(0), 3);
}

TEST_F(DeviceDrafts, AsManyAreGuessedAndVerifiedAsAreWorthIt) {
  StartDrafting();
  Add(Drafting(1));
  Add(Drafting(2));
  BatchPlan plan = Plan();
  EXPECT_EQ(plan.guesses, 2);
  s->LimitDrafts(1, 1);
  s->LimitDrafts(2, 0);
  Commit(Answer(plan));
  plan = Plan();
  ASSERT_EQ(plan.entries.size(), 2u);
  EXPECT_EQ(plan.guesses, 1);
  for (const batch::PlanEntry& entry : plan.entries) {
    EXPECT_EQ(entry.query_tokens, entry.sequence == 1 ? 2 : 1);
    EXPECT_EQ(entry.guesses, entry.sequence == 1 ? 2 : 0);  // there is room for
  }
  s->LimitDrafts(1, 9);
  s->LimitDrafts(2, 2);
  Commit(Answer(plan));
  plan = Plan();
  EXPECT_EQ(plan.guesses, 2);
  for (const batch::PlanEntry& entry : plan.entries)
    EXPECT_EQ(entry.query_tokens, entry.sequence == 1 ? 2 : 1) << "only one was guessed";
}

TEST_F(DeviceDrafts, NoMoreAreGuessedThanAllHaveRoomFor) {
  StartDrafting();
  SequenceSpec one = Drafting(1);
  one.device_drafts = 1;
  Add(one);
  Add(Drafting(2));
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.guesses, 1);
  for (const batch::PlanEntry& entry : plan.entries)
    EXPECT_EQ(entry.guesses, entry.sequence == 1 ? 1 : 2);
}

TEST_F(DeviceDrafts, WhoIsGivenUpNeedsNoHead) {
  StartDrafting();
  Add(Drafting(1));
  Add(Drafting(2));
  BatchPlan plan = Plan();
  s->LimitDrafts(1, -1);
  s->LimitDrafts(2, 0);
  Commit(Answer(plan));
  plan = Plan();
  EXPECT_EQ(plan.guesses, 0) << "the other one may guess again";
  s->LimitDrafts(1, 2);
  s->LimitDrafts(2, -1);
  Commit(Answer(plan));
  EXPECT_EQ(Plan().guesses, -1);
}

TEST_F(DeviceDrafts, ForWhoIsMaskedMeanwhileNothingIsGuessedAnyMore) {
  StartDrafting();
  Add(Drafting(1));
  BatchPlan plan = Plan();
  EXPECT_EQ(plan.guesses, 2);
  EXPECT_FALSE(plan.entries[0].masked);
  s->Mask(1);
  s->Mask(7);  // nobody's
  Commit(Answer(plan));
  plan = Plan();
  ASSERT_EQ(plan.entries.size(), 1u);
  EXPECT_TRUE(plan.entries[0].masked);
  EXPECT_EQ(plan.entries[0].guesses, 0);
  EXPECT_EQ(plan.guesses, -1);
  Commit(Answer(plan));
  RunToTheEnd();
}

TEST_F(DeviceDrafts, NobodyGivesUpABlockForGuesses) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 2;
  Start(options, Blocks(2));
  SequenceSpec spec = Drafting(1, 2), other = Drafting(2, 2);
  spec.prompt = other.prompt = Count(4);
  Add(spec);
  Add(other);
  const BatchPlan plan = Plan();
  ASSERT_EQ(plan.entries.size(), 1u);  // the other's prompt does not fit beside it
  EXPECT_EQ(plan.entries[0].guesses, 2);
  Commit(Answer(plan));
  RunToTheEnd();
  EXPECT_EQ(s->Stats().preemptions, 0u);
}

TEST_F(DeviceDrafts, WithoutRoomNothingIsGuessedNorVerified) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 2;
  options.max_model_len = 8;
  Start(options, Blocks(2));
  SequenceSpec spec = Drafting(1, 4);
  spec.prompt = Count(4);
  Add(spec);
  const BatchPlan prompt = Plan();
  EXPECT_EQ(prompt.entries[0].guesses, 2);
  Commit(Answer(prompt));
  const BatchPlan first = Plan();  // up to position 6: one behind it is too few
  EXPECT_EQ(first.entries[0].query_tokens, 3);
  EXPECT_EQ(first.entries[0].guesses, 0);
  Commit(Kept(first, 1));
  const BatchPlan second = Plan();
  EXPECT_EQ(second.entries[0].query_tokens, 1);
  EXPECT_EQ(second.entries[0].guesses, 2);
  Commit(Kept(second, 1));
  const BatchPlan third = Plan();
  EXPECT_EQ(third.entries[0].query_tokens, 1);
}

TEST_F(DeviceDrafts, AChunkTellsTheTokenBehindIt) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 2;
  options.max_batch_tokens = 4;
  Start(options, Blocks(16));
  SequenceSpec spec = Drafting(1);
  spec.prompt = Count(9);
  Add(spec);
  for (const int32_t next : {104, 108, kLastDrawn}) {
    const BatchPlan plan = Plan();
    EXPECT_EQ(plan.entries[0].next_token, next);
    EXPECT_EQ(plan.entries[0].guesses, next < 0 ? 2 : 0);
    Commit(Answer(plan));
  }
}

TEST_F(DeviceDrafts, ThoseBehindAFirstTokenAreLimitedByThemselves) {
  StartDrafting();
  s->LimitFirstDrafts(1);
  Add(Drafting(1));
  const BatchPlan prompt = Plan();
  EXPECT_EQ(prompt.guesses, 1);
  const BatchPlan second = Plan();  // its first token is not known yet
  EXPECT_EQ(QueryTokens(second, 0), (Tokens{kLastDrawn, batch::KnownToken(1)}));
  EXPECT_EQ(second.guesses, 1);
  Commit(Answer(prompt));
  EXPECT_EQ(Plan().guesses, 2);
}

TEST_F(DeviceDrafts, NoneBehindAFirstTokenIsAStepWithoutGuesses) {
  StartDrafting();
  s->LimitFirstDrafts(-1);
  Add(Drafting(1));
  const BatchPlan prompt = Plan();
  EXPECT_EQ(prompt.guesses, -1);
  EXPECT_EQ(prompt.entries[0].guesses, 0);
  Commit(Answer(prompt));
  EXPECT_EQ(Plan().guesses, 2) << "it has not been given up";
  s->LimitFirstDrafts(0);
  Add(Drafting(2));
  EXPECT_GE(Plan().guesses, 0) << "the tokens are taken note of";
}

}  // namespace
}  // namespace sluice::schedule
