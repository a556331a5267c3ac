// Drafts that are trees: what a plan tells of them, and what is left when they were verified.
#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

// Of drafts 60 (61 (62), 63), 70 (71): 60 and 61 and 62 are the first branch.
const Tokens kTree = {60, 61, 62, 63, 70, 71}, kParents = {0, 1, 2, 1, 0, 5};

class DraftTrees : public SchedulerTest {
 protected:
  void SetUp() override {
    SchedulerOptions options = Options();
    options.max_draft_tokens = 6;
    options.draft_trees = true;
    Start(options, Blocks(16));
  }
  // Begins a sequence that has drawn 50 behind three tokens, and gives the plan that verifies.
  BatchPlan Verify(int32_t max_tokens = 20) {
    Add(Spec(1, Count(3), max_tokens));
    Run(50);
    EXPECT_TRUE(s->AttachDrafts(1, kTree, false, kParents));
    return Plan();
  }
  // `aside`: of the drafts among the tokens.
  const SequenceOutcome& Draw(const BatchPlan& plan, const Tokens& tokens, int32_t aside) {
    StepResult result = Answer(plan);
    result.tokens.clear();
    for (const int32_t id : tokens) result.tokens.push_back({.id = id});
    result.entries[0].token_count = static_cast<int32_t>(tokens.size());
    result.entries[0].aside = aside;
    return Commit(result).sequences.at(0);
  }
};

TEST_F(DraftTrees, APlanTellsWhatEachDraftFollows) {
  const BatchPlan plan = Verify();
  EXPECT_EQ(QueryTokens(plan, 0), (Tokens{50, 60, 61, 62, 63, 70, 71}));
  EXPECT_EQ(plan.entries[0].tree, 0);
  EXPECT_EQ(plan.parents, kParents);
  const Tokens targets = {60, 61, 62, -1, -1, 71, -1};
  ASSERT_EQ(plan.logits_rows.size(), targets.size());
  for (int32_t i = 0; i < 7; ++i) {
    EXPECT_EQ(plan.logits_rows[i].token, i);
    EXPECT_EQ(plan.logits_rows[i].target, targets[i]) << i;
    EXPECT_EQ(plan.logits_rows[i].purpose, RowPurpose::kVerify);
  }
  EXPECT_THAT(Plan().entries, IsEmpty());
}

// Of what was attached before the masks came, one branch stays.
TEST_F(DraftTrees, ASequenceThatIsMaskedMeanwhileVerifiesAChain) {
  Add(Spec(1, Count(3), 20));
  Run(50);
  EXPECT_TRUE(s->AttachDrafts(1, kTree, false, kParents));
  s->Mask(1);
  const BatchPlan plan = Plan();
  EXPECT_EQ(QueryTokens(plan, 0), (Tokens{50, 60, 61, 62}));
  EXPECT_EQ(plan.entries[0].tree, -1);
  EXPECT_TRUE(plan.entries[0].masked);
  EXPECT_THAT(plan.parents, IsEmpty());
}

TEST_F(DraftTrees, WhatWasRightAsideIsComputedOnceMoreOnTheWay) {
  EXPECT_EQ(Draw(Verify(), {60, 63, 80}, 1).token_count, 3);
  EXPECT_EQ(s->Find(1)->computed, 5);  // the prompt, 50 and 60
  // In front of the next drafts, which are as many less.
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{90, 91, 92, 93, 94, 95}));
  const BatchPlan next = Plan();
  EXPECT_EQ(next.entries[0].first_position, 5);
  EXPECT_EQ(QueryTokens(next, 0), (Tokens{63, 80, 90, 91, 92, 93, 94}));
  EXPECT_EQ(next.logits_rows.size(), 6u);
  EXPECT_EQ(next.logits_rows[0].token, 1);
  Commit(Answer(next));
  EXPECT_EQ(s->Find(1)->computed, 12);
  EXPECT_EQ(QueryTokens(Plan(), 0), Tokens{kDrawn});
  EXPECT_EQ(s->Stats().aside, 1u);
}

TEST_F(DraftTrees, AWholeBranchAsideCounts) {
  const SequenceOutcome out = Draw(Verify(), {70, 71, 80}, 2);
  EXPECT_EQ(out.token_count, 3);
  EXPECT_EQ(out.drafted, 6);
  EXPECT_EQ(out.accepted, 2);
  EXPECT_EQ(s->Find(1)->computed, 4);
  EXPECT_EQ(QueryTokens(Plan(), 0), (Tokens{70, 71, 80}));
  const SchedulerStats stats = s->Stats();
  EXPECT_EQ(stats.aside, 2u);
  for (const int place : {0, 1, 2}) EXPECT_EQ(stats.accepted_at[place], place < 2 ? 1u : 0u);
}

TEST_F(DraftTrees, TheFirstBranchAndNothingLeaveNothingBehind) {
  Draw(Verify(), {60, 61, 62, 80}, 0);
  EXPECT_EQ(s->Find(1)->computed, 7);
  EXPECT_EQ(s->Find(1)->aside, 0);
  ASSERT_TRUE(s->AttachDrafts(1, kTree, false, kParents));
  Draw(Plan(), {99}, 0);
  const BatchPlan next = Plan();
  EXPECT_EQ(next.entries[0].first_position, 8);
  EXPECT_EQ(QueryTokens(next, 0), Tokens{99});
}

TEST_F(DraftTrees, AStopWithinABranchDropsTheRest) {
  const SequenceOutcome out = Draw(Verify(), {70, kEnd, 80}, 2);
  EXPECT_EQ(out.token_count, 2);
  EXPECT_EQ(out.finish, FinishReason::kEnd);
  EXPECT_FALSE(s->HasWork());
}

TEST_F(DraftTrees, DraftsNeverPassMaxTokens) {
  const BatchPlan plan = Verify(4);  // of which one is drawn
  EXPECT_EQ(QueryTokens(plan, 0), (Tokens{50, 60, 61}));
  EXPECT_EQ(plan.entries[0].tree, -1) << "a tree whose rest was cut is a chain";
}

TEST_F(DraftTrees, TheFirstBranchIsTakenWhereNoTreeCanBe) {
  SequenceSpec masked = Spec(1, Count(3), 20), guessed = Spec(2, Count(3, 200), 20);
  masked.masked = true;
  guessed.device_drafts = 2;
  Add(masked);
  Add(guessed);
  Run(50);
  for (const SequenceId id : {1, 2}) ASSERT_TRUE(s->AttachDrafts(id, kTree, false, kParents));
  const BatchPlan plan = Plan();
  ASSERT_EQ(plan.entries.size(), 2u);
  for (size_t e = 0; e < 2; ++e) {
    EXPECT_EQ(QueryTokens(plan, e), (Tokens{50, 60, 61, 62}));
    EXPECT_EQ(plan.entries[e].tree, -1);
  }
  SchedulerOptions options = Options();
  options.max_draft_tokens = 6;
  Start(options, Blocks(16));
  Add(Spec(1, Count(3), 20));
  Run(50);
  ASSERT_TRUE(s->AttachDrafts(1, kTree, false, kParents));
  EXPECT_EQ(QueryTokens(Plan(), 0), (Tokens{50, 60, 61, 62})) << "without draft_trees";
}

// What is guessed comes with the results, and is attached as a tree.
TEST_F(DraftTrees, WhoseGuessesAreReadWaitsForThem) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 6;
  options.draft_trees = options.reads_guesses = true;
  Start(options, Blocks(16));
  SequenceSpec spec = Spec(1, Count(3), 20);
  spec.device_drafts = 6;
  Add(spec);
  const BatchPlan prompt = Plan();
  EXPECT_EQ(prompt.guesses, 6);
  EXPECT_THAT(Plan().entries, IsEmpty()) << "its guesses are not known";
  Commit(Answer(prompt, 50));
  Commit(StepResult{.step = prompt.step + 1});
  ASSERT_TRUE(s->AttachDrafts(1, kTree, false, kParents));
  s->LimitDrafts(1, 0);
  const BatchPlan verify = Plan();
  EXPECT_EQ(QueryTokens(verify, 0), (Tokens{50, 60, 61, 62, 63, 70, 71}));
  EXPECT_EQ(verify.entries[0].tree, 0);
  EXPECT_EQ(verify.entries[0].guesses, 0);
  EXPECT_THAT(Plan().entries, IsEmpty()) << "what it goes on from is not known";
}

}  // namespace
}  // namespace sluice::schedule
