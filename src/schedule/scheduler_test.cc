#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

TEST_F(SchedulerTest, RefusesOptionsThatDoNotFit) {
  const auto field = [](auto change) {
    SchedulerOptions options = Options();
    change(options);
    return Scheduler::Create(options, Blocks(4)).status().field();
  };
  EXPECT_EQ(field([](SchedulerOptions& o) { o.max_num_seqs = 0; }), "max-num-seqs");
  EXPECT_EQ(field([](SchedulerOptions& o) { o.max_batch_tokens = 3; }), "max-batch-tokens");
  EXPECT_EQ(field([](SchedulerOptions& o) { o.max_extra_rows = 0; }), "max_extra_rows");
  EXPECT_EQ(field([](SchedulerOptions& o) { o.max_model_len = 0; }), "max-model-len");
  EXPECT_EQ(field([](SchedulerOptions& o) { o.queue_limit = 0; }), "max-queue");
  EXPECT_EQ(field([](SchedulerOptions& o) { o.policy = "lottery"; }), "scheduler-policy");
  EXPECT_EQ(Scheduler::Create(Options(), Blocks(0)).status().field(), "kv-memory");
}

TEST_F(SchedulerTest, NamesNoFlagThatDoesNotExist) {
  SchedulerOptions options = Options();
  options.max_extra_rows = 0;
  const Status status = Scheduler::Create(options, Blocks(4)).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message().find("--"), std::string::npos) << status.message();
}

TEST_F(SchedulerTest, AnEmptyPlanIsAStep) {
  Start();
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.step, 1u);
  EXPECT_THAT(plan.entries, IsEmpty());
  EXPECT_EQ(s->uncommitted(), 1);
  EXPECT_THAT(Commit(Answer(plan)).sequences, IsEmpty());
  EXPECT_EQ(s->uncommitted(), 0);
}

TEST_F(SchedulerTest, AWholePromptWaitsForAStepThatHasRoomForIt) {
  Start();
  const auto whole = [](SequenceId id, int32_t tokens) {
    SequenceSpec spec = Spec(id, Count(tokens), 0);
    spec.whole_prompt = true;
    spec.second_text = id == 2 ? 3 : -1;
    return spec;
  };
  Add(whole(1, 10));
  Add(whole(2, 9));
  Add(whole(3, 6));
  const BatchPlan first = Plan();
  ASSERT_EQ(first.entries.size(), 2u);  // 10 of 16 tokens, and then the one that fits beside
  EXPECT_EQ(first.entries[0].sequence, 1u);
  EXPECT_EQ(first.entries[1].sequence, 3u);
  EXPECT_TRUE(first.logits_rows.empty());
  const CommitOutcome ended = Commit(Answer(first));
  ASSERT_EQ(ended.sequences.size(), 2u);
  EXPECT_EQ(ended.sequences[0].finish, FinishReason::kLength);
  const BatchPlan second = Plan();
  ASSERT_EQ(second.entries.size(), 1u);
  EXPECT_EQ(second.entries[0].sequence, 2u);
  EXPECT_EQ(second.entries[0].query_tokens, 9);
  EXPECT_EQ(second.entries[0].second_text, 3);
  Commit(Answer(second));
  SequenceSpec longer = whole(4, 17);
  EXPECT_THAT(s->Add(longer, now).message(), HasSubstr("in one step, which has at most 16"));
}

TEST_F(SchedulerTest, PrefillThenDecodeToTheLength) {
  Start();
  Add(Spec(1, Count(5), 3));
  const BatchPlan prefill = Plan();
  ASSERT_EQ(prefill.entries.size(), 1u);
  EXPECT_EQ(QueryTokens(prefill, 0), Count(5));
  EXPECT_EQ(prefill.entries[0].first_position, 0);
  EXPECT_EQ(prefill.entries[0].query_tokens, 5);
  ASSERT_EQ(prefill.logits_rows.size(), 1u);
  EXPECT_EQ(prefill.logits_rows[0].token, 4);
  ASSERT_EQ(prefill.starts.size(), 1u);
  EXPECT_EQ(prefill.starts[0].history, Count(5));
  EXPECT_EQ(prefill.starts[0].prompt_tokens, 5);
  EXPECT_EQ(prefill.groups[0].ids.size(), 2u);
  ASSERT_EQ(Commit(Answer(prefill, 7)).sequences.size(), 1u);
  EXPECT_EQ(outcome.sequences[0].token_count, 1);
  EXPECT_EQ(outcome.sequences[0].finish, FinishReason::kNone);

  const BatchPlan decode = Plan();
  EXPECT_EQ(QueryTokens(decode, 0), Tokens{7});
  EXPECT_EQ(decode.entries[0].first_position, 5);
  EXPECT_THAT(decode.starts, IsEmpty());
  Commit(Answer(decode));
  EXPECT_EQ(Run().sequences[0].finish, FinishReason::kLength);
  EXPECT_FALSE(s->HasWork());
  EXPECT_EQ(s->kv().pool(0).referenced(), 0);
}

TEST_F(SchedulerTest, DecodesGoFirstAndChunksShareTheStep) {
  Start();
  Add(Spec(1, Count(3)));
  Run();
  Add(Spec(2, Count(20, 200)));
  Add(Spec(3, Count(20, 300)));
  const BatchPlan plan = Plan();
  ASSERT_EQ(plan.entries.size(), 2u);
  EXPECT_EQ(plan.entries[0].sequence, 1u);
  EXPECT_EQ(plan.entries[1].sequence, 2u);
  EXPECT_EQ(plan.entries[1].query_tokens, 15);  // 16 less the decode
  EXPECT_EQ(plan.entries[1].logits_count, 0);   // the prompt goes on
  Commit(Answer(plan));
  const BatchPlan next = Plan();
  ASSERT_EQ(next.entries.size(), 3u);
  EXPECT_EQ(next.entries[1].first_position, 15);
  EXPECT_EQ(next.entries[1].query_tokens, 5);
  EXPECT_EQ(next.entries[1].logits_count, 1);
  EXPECT_EQ(next.entries[2].query_tokens, 10);
}

TEST_F(SchedulerTest, EndAndStopIds) {
  Start();
  const auto finish = [&](SequenceSpec spec, int32_t token) {
    static SequenceId id = 1;
    spec.id = id++;
    Add(std::move(spec));
    const FinishReason reason = Run(token).sequences.at(0).finish;
    s->Cancel(id - 1);
    return reason;
  };
  SequenceSpec spec = Spec(0, Count(3));
  spec.stop_ids = {9};
  EXPECT_EQ(finish(spec, kEnd), FinishReason::kEnd);
  EXPECT_EQ(finish(spec, 9), FinishReason::kStop);
  EXPECT_EQ(finish(spec, 8), FinishReason::kNone);
  spec.ignore_eos = true;
  EXPECT_EQ(finish(spec, kEnd), FinishReason::kNone);
  EXPECT_EQ(finish(spec, 9), FinishReason::kStop);
  spec.ignore_eos = false;
  spec.sampling.min_tokens = 1;
  EXPECT_EQ(finish(spec, kEnd), FinishReason::kNone);
  EXPECT_EQ(s->Stats().finished[static_cast<size_t>(FinishReason::kStop)], 2u);
}

TEST_F(SchedulerTest, MinTokensTellsTheSamplerWhatToMask) {
  Start();
  SequenceSpec spec = Spec(1, Count(3));
  spec.sampling.min_tokens = 2;
  spec.stop_ids = {9};
  Add(spec);
  EXPECT_THAT(Plan().starts.at(0).sampling.end_ids, ElementsAre(9, kEnd));
}

TEST_F(SchedulerTest, ARequestThatCanNeverFitNamesLimitAndFlag) {
  Start(Options(), Blocks(8));
  const auto refusal = [&](Tokens prompt, int32_t max_tokens) {
    const Status status = s->Add(Spec(1, std::move(prompt), max_tokens), 0);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(refusal(Count(64), 1), HasSubstr("--max-model-len"));
  EXPECT_THAT(refusal(Count(30), 10), HasSubstr("--kv-memory"));
  EXPECT_THAT(refusal({}, 1), HasSubstr("empty"));
  EXPECT_THAT(refusal({-1}, 1), HasSubstr("negative"));
  EXPECT_THAT(refusal({1}, -1), HasSubstr("max_tokens"));
  EXPECT_EQ(s->LongestSequence(), 33);  // the last token drawn needs no KV
  Add(Spec(1, Count(30), 3));
  RunToTheEnd();
}

TEST_F(SchedulerTest, MaxTokensIsCutToTheRoomLeft) {
  Start();
  Add(Spec(1, Count(60), 1000));
  RunToTheEnd();
  EXPECT_EQ(outcome.sequences[0].drawn, 4);
  EXPECT_EQ(outcome.sequences[0].finish, FinishReason::kLength);
}

TEST_F(SchedulerTest, TheQueueIsBoundedAndTakesAllChoicesOrNone) {
  Start();
  for (SequenceId id = 1; id <= 7; ++id) Add(Spec(id, Count(3)));
  EXPECT_EQ(s->Add({Spec(8, Count(3)), Spec(9, Count(3))}, 0).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(s->Stats().waiting, 7);
  Add(Spec(8, Count(3)));
  EXPECT_EQ(s->Add(Spec(9, Count(3)), 0).code(), StatusCode::kResourceExhausted);
  Run();  // four are admitted
  Add(Spec(9, Count(3)));
  s->Cancel(8);
  s->Cancel(9);
  RunToTheEnd();
}

TEST_F(SchedulerTest, ALateCommitReadsTheTokenFromTheRowBefore) {
  Start();
  Add(Spec(1, Count(3), 3));
  Add(Spec(2, Count(2, 200), 8));
  const BatchPlan first = Plan();
  const BatchPlan second = Plan();  // before the Commit of the first
  ASSERT_EQ(second.entries.size(), 2u);
  EXPECT_EQ(QueryTokens(second, 0), Tokens{kLastDrawn});
  EXPECT_EQ(QueryTokens(second, 1), Tokens{kLastDrawn});
  EXPECT_EQ(second.entries[0].first_position, 3);
  Commit(Answer(first, 7));
  const BatchPlan third = Plan();
  EXPECT_EQ(QueryTokens(third, 0), Tokens{kLastDrawn});
  Commit(Answer(second, 8));
  // Sequence 1 draws its last token in the third step: the fourth does without it.
  const BatchPlan fourth = Plan();
  ASSERT_EQ(fourth.entries.size(), 1u);
  EXPECT_EQ(fourth.entries[0].sequence, 2u);
  Commit(Answer(third));
  EXPECT_EQ(outcome.sequences[0].finish, FinishReason::kLength);
  EXPECT_EQ(s->Find(2)->tokens, (Tokens{200, 201, 7, 8, kDrawn}));
  Commit(Answer(fourth));
}

TEST_F(SchedulerTest, TokensPastAStopAreDroppedAndBlocksWaitForTheirLastStep) {
  Start();
  Add(Spec(1, Count(3)));
  const BatchPlan first = Plan();
  const BatchPlan second = Plan();
  EXPECT_EQ(Commit(Answer(first, kEnd)).sequences.at(0).finish, FinishReason::kEnd);
  EXPECT_FALSE(s->HasWork());
  EXPECT_EQ(s->kv().pool(0).referenced(), 1);  // the second step still writes there
  EXPECT_THAT(Commit(Answer(second)).sequences, IsEmpty());
  EXPECT_EQ(s->kv().pool(0).referenced(), 0);
}

TEST_F(SchedulerTest, CancelWorksInEveryStateAndInFlight) {
  Start();
  for (SequenceId id = 1; id <= 6; ++id) Add(Spec(id, Count(6)));
  EXPECT_TRUE(s->Cancel(6));  // waiting
  const BatchPlan first = Plan();
  EXPECT_TRUE(s->Cancel(1));  // in flight
  const BatchPlan second = Plan();
  EXPECT_TRUE(s->Cancel(2));  // in flight twice
  EXPECT_FALSE(s->Cancel(2));
  EXPECT_FALSE(s->Cancel(77));
  for (const SequenceOutcome& out : Commit(Answer(first)).sequences) EXPECT_GT(out.id, 2u);
  for (const SequenceOutcome& out : Commit(Answer(second)).sequences) EXPECT_GT(out.id, 2u);
  for (SequenceId id = 3; id <= 5; ++id) EXPECT_TRUE(s->Cancel(id));
  EXPECT_FALSE(s->HasWork());
  EXPECT_EQ(s->kv().pool(0).referenced(), 0);
}

TEST_F(SchedulerTest, ASlotIsReusedAfterItsLastStep) {
  SchedulerOptions options = Options();
  options.max_num_seqs = 1;
  Start(options, Blocks(16));
  Add(Spec(1, Count(3)));
  const BatchPlan first = Plan();
  s->Cancel(1);
  Add(Spec(2, Count(3, 200)));
  const BatchPlan second = Plan();
  EXPECT_THAT(second.entries, IsEmpty());
  Commit(Answer(first));
  Commit(Answer(second));
  EXPECT_EQ(Plan().entries.at(0).sequence, 2u);
}

TEST_F(SchedulerTest, MemoryShortagePreemptsTheLatestAndNothingIsLost) {
  Start(Options(), Blocks(6));
  Add(Spec(1, Count(8), 12));
  Add(Spec(2, Count(7, 200), 12));
  for (int i = 0; i < 4; ++i) Run(30 + i);
  EXPECT_EQ(s->Stats().preemptions, 0u);
  while (s->Stats().preemptions == 0) Run();
  EXPECT_EQ(s->Find(2)->state, SequenceState::kPreempted);
  EXPECT_EQ(s->Find(1)->state, SequenceState::kRunning);
  const Tokens drawn = s->Find(2)->tokens;
  EXPECT_GE(drawn.size(), 11u);
  while (s->Find(1) != nullptr) Run();
  const BatchPlan again = Plan();
  ASSERT_EQ(again.starts.size(), 1u);
  EXPECT_EQ(again.starts[0].history, drawn);
  EXPECT_EQ(again.starts[0].prompt_tokens, 7);
  Commit(Answer(again));
  RunToTheEnd();
  EXPECT_EQ(outcome.sequences.back().drawn, 12);
}

// Beside what runs, a new sequence needs a block more than it fills: else the next token preempts.
TEST_F(SchedulerTest, AdmissionLeavesABlockForWhatRunningOnesDraw) {
  Start(Options(), Blocks(4));
  Add(Spec(1, Count(7), 3));
  Add(Spec(2, Count(8, 200), 3));  // the two blocks that are left hold it exactly
  EXPECT_EQ(Plan().entries.size(), 1u);
  Start(Options(), Blocks(5));
  Add(Spec(1, Count(7), 3));
  Add(Spec(2, Count(8, 200), 3));
  EXPECT_EQ(Plan().entries.size(), 2u);
}

TEST_F(SchedulerTest, APreemptedSequenceKeepsTheTokenThatWasInFlight) {
  Start(Options(), Blocks(4));
  Add(Spec(1, Count(7), 9));
  Add(Spec(2, Count(4, 200), 9));
  const BatchPlan first = Plan();
  const BatchPlan second = Plan();  // sequence 2 takes the last block
  Commit(Answer(first, 40));
  const BatchPlan third = Plan();  // sequence 1 needs one
  EXPECT_EQ(s->Find(2)->state, SequenceState::kPreempted);
  EXPECT_THAT(third.entries, IsEmpty());  // the block comes free with the second step
  EXPECT_EQ(s->Find(2)->tokens.size(), 5u);
  Commit(Answer(second, 41));
  EXPECT_EQ(s->Find(2)->tokens, (Tokens{200, 201, 202, 203, 40, 41}));
  Commit(Answer(third));
  EXPECT_EQ(Plan().entries.at(0).sequence, 1u);
  EXPECT_EQ(s->Stats().preemptions, 1u);
}

TEST_F(SchedulerTest, KvOfOtherWeightsIsNeverShared) {
  Start();
  s->SetWeightsVersion(1);
  Add(Spec(1, Count(8), 1));
  RunToTheEnd();
  Add(Spec(2, Count(8), 1));  // waits while the weights are updated
  s->SetWeightsVersion(2);
  EXPECT_EQ(Plan().entries.at(0).first_position, 0);
}

TEST_F(SchedulerTest, AChoiceDoesNotForkFromOneThatOtherWeightsComputed) {
  for (const uint64_t version : {1, 2}) {
    Start();
    s->SetWeightsVersion(1);
    ASSERT_TRUE(s->Add(std::vector{Spec(1, Count(8)), Spec(2, Count(8))}, now++).ok());
    const BatchPlan first = Plan();
    ASSERT_EQ(first.entries.size(), 1u);  // the second waits for the prompt of the first
    s->SetWeightsVersion(version);
    Commit(Answer(first));
    const BatchPlan second = Plan();
    ASSERT_EQ(second.entries.size(), 2u);
    EXPECT_EQ(second.entries[1].sequence, 2u);
    EXPECT_EQ(second.entries[1].first_position, version == 1 ? 7 : 0);
  }
}

TEST_F(SchedulerTest, AFullPromptHitLeavesOneTokenToCompute) {
  Start();
  Add(Spec(1, Count(8), 1));
  RunToTheEnd();
  Add(Spec(2, Count(8), 1));
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.entries[0].first_position, 4);
  EXPECT_EQ(plan.entries[0].query_tokens, 4);
  EXPECT_EQ(Commit(Answer(plan)).sequences[0].cached_tokens, 4);
  EXPECT_EQ(s->Stats().prefix_queries, 16u);
  EXPECT_EQ(s->Stats().prefix_hits, 4u);
  SequenceSpec other = Spec(3, Count(8), 1);
  other.key.salt = "another API key";
  Add(other);
  EXPECT_EQ(Plan().entries[0].first_position, 0);
}

TEST_F(SchedulerTest, ChoicesShareThePromptByForkAndCopyTheLastBlock) {
  Start();
  std::vector<SequenceSpec> choices = {Spec(1, Count(7)), Spec(2, Count(7)), Spec(3, Count(7))};
  for (int i = 0; i < 3; ++i) choices[i].sampling.choice = i;
  ASSERT_TRUE(s->Add(std::move(choices), now).ok());
  const BatchPlan first = Plan();
  ASSERT_EQ(first.entries.size(), 1u);
  EXPECT_EQ(first.entries[0].sequence, 1u);
  const BatchPlan second = Plan();  // while the first is in flight
  ASSERT_EQ(second.entries.size(), 3u);
  ASSERT_EQ(second.copies.size(), 2u);
  EXPECT_EQ(second.copies[0].source, first.groups[0].ids[1]);
  EXPECT_NE(second.copies[0].destination, second.copies[1].destination);
  EXPECT_EQ(QueryTokens(second, 1), Tokens{106});
  EXPECT_EQ(second.entries[1].first_position, 6);
  EXPECT_EQ(s->kv().pool(0).referenced(), 4);  // one shared, three own
  Commit(Answer(first));
  Commit(Answer(second));
  RunToTheEnd();
}

TEST_F(SchedulerTest, AChoiceWhoseFirstSiblingIsCancelledComputesThePromptItself) {
  Start();
  ASSERT_TRUE(s->Add({Spec(1, Count(7)), Spec(2, Count(7))}, now).ok());
  s->Cancel(1);
  const BatchPlan plan = Plan();
  ASSERT_EQ(plan.entries.size(), 1u);
  EXPECT_EQ(plan.entries[0].query_tokens, 7);
}

TEST_F(SchedulerTest, PromptScoresComeInChunksOnceEach) {
  SchedulerOptions options = Options();
  options.max_extra_rows = 3;
  Start(options, Blocks(16));
  Add(Spec(1, Count(9), 1));
  RunToTheEnd();  // warms the cache, which scoring must not use
  SequenceSpec spec = Spec(2, Count(9), 1);
  spec.prompt_logprobs = true;
  Add(spec);
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.entries[0].first_position, 0);
  EXPECT_EQ(plan.entries[0].query_tokens, 3);
  ASSERT_EQ(plan.logits_rows.size(), 3u);
  EXPECT_EQ(plan.logits_rows[1].purpose, RowPurpose::kScore);
  EXPECT_EQ(plan.logits_rows[1].target, 102);
  Commit(Answer(plan));
  EXPECT_EQ(outcome.sequences[0].score_count, 3);
  const BatchPlan second = Plan();
  EXPECT_EQ(second.logits_rows.at(0).target, 104);
  EXPECT_EQ(Commit(Answer(second)).sequences.at(0).score_count, 3);
  const BatchPlan third = Plan();
  EXPECT_EQ(third.logits_rows.at(0).target, 107);
  Commit(Answer(third));
  EXPECT_EQ(outcome.sequences[0].score_count, 2);
  EXPECT_EQ(outcome.sequences[0].finish, FinishReason::kLength);
  EXPECT_EQ(outcome.sequences[0].token_count, 1);
}

TEST_F(SchedulerTest, ScoringAloneDrawsNothing) {
  Start();
  SequenceSpec spec = Spec(1, Count(5), 0);
  spec.prompt_logprobs = true;
  Add(spec);
  const SequenceOutcome out = Run().sequences.at(0);
  EXPECT_EQ(out.score_count, 4);
  EXPECT_EQ(out.token_count, 0);
  EXPECT_EQ(out.finish, FinishReason::kLength);
}

TEST_F(SchedulerTest, ADegenerateRowEndsItsOwnRequestOnly) {
  Start();
  Add(Spec(1, Count(3)));
  Add(Spec(2, Count(3, 200)));
  StepResult result = Answer(Plan());
  result.entries[0].status = batch::RowStatus::kDegenerate;
  Commit(result);
  ASSERT_EQ(outcome.sequences.size(), 2u);
  EXPECT_EQ(outcome.sequences[0].finish, FinishReason::kError);
  EXPECT_EQ(outcome.sequences[0].token_count, 1);  // the argmax stays
  EXPECT_EQ(outcome.sequences[1].finish, FinishReason::kNone);
  RunToTheEnd();
}

TEST_F(SchedulerTest, AFailedStepEndsItsSequencesAndTheSchedulerGoesOn) {
  Start();
  Add(Spec(1, Count(3)));
  const BatchPlan first = Plan();
  const BatchPlan second = Plan();
  Add(Spec(2, Count(3)));
  s->Fail(first.step, &outcome);
  ASSERT_EQ(outcome.sequences.size(), 1u);
  EXPECT_EQ(outcome.sequences[0].finish, FinishReason::kError);
  s->Fail(second.step, &outcome);
  EXPECT_THAT(outcome.sequences, IsEmpty());
  s->CheckInvariants();
  RunToTheEnd();
  EXPECT_EQ(outcome.sequences[0].id, 2u);
}

TEST_F(SchedulerTest, AVerifyEntryHasLogitsOnEachOfItsTokens) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 3;
  Start(options, Blocks(16));
  Add(Spec(1, Count(3), 20));
  EXPECT_FALSE(s->AttachDrafts(1, Tokens{60}));  // not decoding yet
  Run(50);
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{60, 61, 62, 63}));  // one more than the limit
  const BatchPlan plan = Plan();
  EXPECT_FALSE(s->AttachDrafts(1, Tokens{60}));  // in flight
  EXPECT_EQ(QueryTokens(plan, 0), (Tokens{50, 60, 61, 62}));
  ASSERT_EQ(plan.logits_rows.size(), 4u);
  const Tokens targets = {60, 61, 62, -1};
  for (int32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(plan.logits_rows[i].purpose, RowPurpose::kVerify);
    EXPECT_EQ(plan.logits_rows[i].token, i);
    EXPECT_EQ(plan.logits_rows[i].target, targets[i]);
  }
  const BatchPlan overlapped = Plan();
  EXPECT_THAT(overlapped.entries, IsEmpty());  // how many are accepted is not known yet
  StepResult result = Answer(plan);
  result.tokens = {{.id = 60}, {.id = 70}};  // the second draft is rejected
  result.entries[0].token_count = 2;
  EXPECT_EQ(Commit(result).sequences.at(0).token_count, 2);
  Commit(Answer(overlapped));
  EXPECT_EQ(s->Stats().drafted, 3u);
  EXPECT_EQ(s->Stats().accepted, 1u);
  // The KV of the rejected drafts is rolled back: the next entry overwrites it.
  const BatchPlan next = Plan();
  EXPECT_EQ(next.entries[0].first_position, 5);
  EXPECT_EQ(QueryTokens(next, 0), Tokens{70});
}

TEST_F(SchedulerTest, ASequenceThatAwaitsItsCommitIsLeftOutUntilThen) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 3;
  Start(options, Blocks(16));
  Add(Spec(1, Count(3), 20));
  Add(Spec(2, Count(3, 200), 20));
  Run();
  const BatchPlan first = Plan();
  ASSERT_EQ(first.entries.size(), 2u);
  EXPECT_FALSE(s->AttachDrafts(1, Tokens{60}));
  s->AwaitCommit(1);
  const BatchPlan second = Plan();
  ASSERT_EQ(second.entries.size(), 1u);
  EXPECT_EQ(second.entries[0].sequence, 2u);
  Commit(Answer(first, 51));
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{60, 61}));
  const BatchPlan third = Plan();
  ASSERT_EQ(third.entries.size(), 2u);
  EXPECT_EQ(third.entries[0].sequence, 2u);  // single tokens first; it overlaps as before
  EXPECT_EQ(QueryTokens(third, 1), (Tokens{51, 60, 61}));
  Commit(Answer(second));
  Commit(Answer(third));
  // Without drafts it goes on in any case, and overlaps again.
  const BatchPlan fourth = Plan();
  s->AwaitCommit(1);
  s->AwaitCommit(3);  // there is none
  const BatchPlan fifth = Plan();
  EXPECT_EQ(fifth.entries.size(), 1u);
  Commit(Answer(fourth));
  const BatchPlan sixth = Plan();
  EXPECT_EQ(sixth.entries.size(), 2u);
  Commit(Answer(fifth));
  EXPECT_EQ(Plan().entries.size(), 2u);
  Commit(Answer(sixth));
}

TEST_F(SchedulerTest, AwaitingACommitEndsWithPreemption) {
  Start(Options(), Blocks(4));
  Add(Spec(1, Count(7), 9));
  Add(Spec(2, Count(4, 200), 9));
  const BatchPlan first = Plan();
  s->AwaitCommit(2);
  const BatchPlan second = Plan();
  ASSERT_EQ(second.entries.size(), 1u);
  Commit(Answer(first, 40));
  Commit(Answer(second, 41));
  while (s->Stats().preemptions == 0) Run();
  EXPECT_EQ(s->Find(2)->state, SequenceState::kPreempted);
  RunToTheEnd();
  EXPECT_EQ(outcome.sequences.back().drawn, 9);
}

TEST_F(SchedulerTest, AStopAmongAcceptedDraftsDropsTheRest) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 3;
  Start(options, Blocks(16));
  Add(Spec(1, Count(3), 20));
  Run(50);
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{60, kEnd, 62}));
  const SequenceOutcome out = Run().sequences.at(0);
  EXPECT_EQ(out.token_count, 2);
  EXPECT_EQ(out.finish, FinishReason::kEnd);
  EXPECT_FALSE(s->HasWork());
}

TEST_F(SchedulerTest, AStopBeforeADegenerateRowComesFirst) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 3;
  Start(options, Blocks(16));
  Add(Spec(1, Count(3), 20));
  Run(50);
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{kEnd, 61}));
  StepResult result = Answer(Plan());
  result.entries[0].status = batch::RowStatus::kDegenerate;
  EXPECT_EQ(Commit(result).sequences.at(0).finish, FinishReason::kEnd);
}

TEST_F(SchedulerTest, ForcedDraftsReplaceOthersAndAreCountedByThemselves) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 3;
  Start(options, Blocks(16));
  Add(Spec(1, Count(3), 20));
  Run(50);
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{70, 71, 72}));
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{60, 61}, /*forced=*/true));
  Run();
  EXPECT_EQ(s->Stats().forced, 2u);
  EXPECT_EQ(s->Stats().forced_accepted, s->Stats().accepted);
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{60}));
  Run();
  EXPECT_EQ(s->Stats().forced, 2u);
  EXPECT_EQ(s->Stats().drafted, 3u);
}

TEST_F(SchedulerTest, DraftsNeverPassMaxTokens) {
  SchedulerOptions options = Options();
  options.max_draft_tokens = 3;
  Start(options, Blocks(16));
  Add(Spec(1, Count(3), 3));
  Run(50);
  ASSERT_TRUE(s->AttachDrafts(1, Tokens{60, 61, 62}));
  EXPECT_EQ(Plan().entries[0].query_tokens, 2);
}

TEST_F(SchedulerTest, ASequenceWithoutOverlapWaitsForItsCommit) {
  Start();
  SequenceSpec spec = Spec(1, Count(3));
  spec.no_overlap = true;
  Add(spec);
  Add(Spec(2, Count(3)));
  const BatchPlan first = Plan();
  const BatchPlan second = Plan();
  ASSERT_EQ(second.entries.size(), 1u);
  EXPECT_EQ(second.entries[0].sequence, 2u);
  Commit(Answer(first));
  EXPECT_EQ(Plan().entries.size(), 2u);
}

SequenceSpec Penalised(SequenceSpec spec) {
  spec.sampling.presence_penalty = 0.5f;
  return spec;
}

TEST_F(SchedulerTest, PenaltiesWaitForTheirCommitInASlotWithoutCounts) {
  SchedulerOptions options = Options();
  options.counted_slots = 1;
  Start(options, Blocks(64));
  Add(Penalised(Spec(1, Count(3))));
  Add(Penalised(Spec(2, Count(3))));
  Add(Spec(3, Count(3)));
  const BatchPlan first = Plan();
  ASSERT_EQ(first.entries.size(), 3u);
  EXPECT_EQ(first.entries[0].slot, 0);
  const BatchPlan second = Plan();  // the second has no counts
  ASSERT_EQ(second.entries.size(), 2u);
  EXPECT_EQ(second.entries[0].sequence, 1u);
  EXPECT_EQ(second.entries[1].sequence, 3u);
  Commit(Answer(first));
  Commit(Answer(second));
  EXPECT_EQ(Plan().entries.size(), 3u);
}

TEST_F(SchedulerTest, SlotsWithCountsAreKeptForPenaltiesWhileThereAreOthers) {
  SchedulerOptions options = Options();
  options.max_num_seqs = 4;
  options.counted_slots = 2;
  Start(options, Blocks(64));
  for (SequenceId id = 1; id <= 3; ++id) Add(Spec(id, Count(3)));
  Add(Penalised(Spec(4, Count(3))));
  const BatchPlan plan = Plan();
  ASSERT_EQ(plan.entries.size(), 4u);
  EXPECT_GE(plan.entries[0].slot, 2);
  EXPECT_GE(plan.entries[1].slot, 2);
  EXPECT_LT(plan.entries[2].slot, 2);  // no other was left
  EXPECT_LT(plan.entries[3].slot, 2);
  EXPECT_EQ(Plan().entries.size(), 4u);
}

TEST_F(SchedulerTest, PriorityGoesFirstAndPushesOut) {
  SchedulerOptions options = Options();
  options.max_num_seqs = 1;
  options.policy = "priority";
  Start(options, Blocks(16));
  const auto with_priority = [](SequenceId id, int32_t priority) {
    SequenceSpec spec = Spec(id, Count(3, static_cast<int32_t>(id) * 100));
    spec.priority = priority;
    return spec;
  };
  Add(with_priority(1, 5));
  Run();
  Add(with_priority(2, 5));  // no more urgent: waits
  EXPECT_EQ(Run().sequences.at(0).id, 1u);
  Add(with_priority(3, 0));
  EXPECT_EQ(Run().sequences.at(0).id, 3u);
  EXPECT_EQ(s->Find(1)->state, SequenceState::kPreempted);
  while (s->Find(3) != nullptr) Run();
  EXPECT_EQ(Run().sequences.at(0).id, 1u);
  RunToTheEnd();
}

TEST_F(SchedulerTest, NobodyIsPushedOutForMemoryThatIsAboutToComeFree) {
  SchedulerOptions options = Options();
  options.policy = "priority";
  Start(options, Blocks(6));
  SequenceSpec running = Spec(1, Count(3));
  running.priority = 5;
  Add(running);
  SequenceSpec ending = Spec(2, Count(15, 200), 1);
  ending.priority = 5;
  Add(ending);
  const BatchPlan first = Plan();
  ASSERT_EQ(first.entries.size(), 2u);
  s->Cancel(2);                  // its four blocks come free with the step in flight
  Add(Spec(3, Count(11, 300)));  // more urgent; three blocks
  const BatchPlan second = Plan();
  EXPECT_EQ(s->Stats().preemptions, 0u);
  EXPECT_EQ(s->Find(3)->state, SequenceState::kWaiting);
  Commit(Answer(first));
  Commit(Answer(second));
  Run();
  EXPECT_EQ(s->Find(3)->state, SequenceState::kRunning);
  EXPECT_EQ(s->Stats().preemptions, 0u);
}

TEST_F(SchedulerTest, WaitingMakesUrgent) {
  SchedulerOptions options = Options();
  options.max_num_seqs = 1;
  options.policy = "priority";
  Start(options, Blocks(16));
  SequenceSpec patient = Spec(1, Count(3));
  patient.priority = 3;
  ASSERT_TRUE(s->Add(patient, 0).ok());
  ASSERT_TRUE(s->Add(Spec(2, Count(3, 200)), 3 * kPriorityAgingUs - 1).ok());
  ASSERT_TRUE(s->Add(Spec(3, Count(3, 300)), 3 * kPriorityAgingUs + 1).ok());
  EXPECT_EQ(Run().sequences.at(0).id, 2u);
  while (s->Find(2) != nullptr) Run();
  EXPECT_EQ(Run().sequences.at(0).id, 1u);
}

TEST_F(SchedulerTest, AWindowGroupHoldsOnlyItsWindow) {
  std::vector<KvGroup> groups = Blocks(16);
  groups.push_back({KvKind::kWindow, 4, 4, 6, 8});
  Start(Options(), groups);
  Add(Spec(1, Count(30), 20));
  for (int i = 0; i < 10; ++i) Run();
  const BatchPlan plan = Plan();
  const Sequence& sequence = *s->Find(1);
  EXPECT_LE(sequence.kv.groups[1].held, 3);
  EXPECT_GE(sequence.kv.groups[0].held, 10);
  EXPECT_EQ(plan.groups[1].Width(0), plan.groups[0].Width(0));
  EXPECT_LE(plan.groups[1].ids.size(), 1u) << "that blocks were let go is not told";
}

TEST_F(SchedulerTest, PlansTellWhatIsNewInBlockTables) {
  Start();
  Add(Spec(1, Count(6), 20));
  const BatchPlan prefill = Plan();
  EXPECT_EQ(prefill.entries[0].told_whole, prefill.step);
  EXPECT_EQ(prefill.groups[0].first, Tokens{0});
  EXPECT_EQ(prefill.groups[0].ids, s->Find(1)->kv.groups[0].table);
  Commit(Answer(prefill));
  for (int position = 6; position < 14; ++position) {
    const BatchPlan plan = Plan();
    EXPECT_EQ(plan.entries[0].told_whole, prefill.step);
    EXPECT_EQ(plan.groups[0].ids.size(), position % 4 == 0 ? 1u : 0u) << position;
    EXPECT_EQ(plan.groups[0].Width(0), position / 4 + 1);
    Commit(Answer(plan));
  }
}

TEST_F(SchedulerTest, WhoComesBackAfterPreemptionIsToldWhole) {
  Start(Options(), Blocks(6));
  Add(Spec(1, Count(8), 12));
  Add(Spec(2, Count(8), 12));
  std::map<schedule::SequenceId, uint64_t> told;
  int told_again = 0;
  while (s->HasWork()) {
    const BatchPlan plan = Plan();
    for (size_t e = 0; e < plan.entries.size(); ++e) {
      uint64_t& whole = told[plan.entries[e].sequence];
      if (plan.entries[e].told_whole != whole) {
        told_again += whole > 0 ? 1 : 0;
        whole = plan.step;
        EXPECT_EQ(plan.groups[0].first[e], 0);
      }
      EXPECT_EQ(plan.entries[e].told_whole, whole);
    }
    Commit(Answer(plan));
  }
  EXPECT_GT(s->Stats().preemptions, 0u);
  EXPECT_GT(told_again, 0);
}

TEST_F(SchedulerTest, SteadyDecodingAllocatesNoPlanBuffers) {
  Start();
  Add(Spec(1, Count(3), 40));
  BatchPlan plan;
  plan.tokens.reserve(64);
  s->Plan(0, &plan);
  const int32_t* tokens = plan.tokens.data();
  for (int i = 0; i < 20; ++i) {
    Commit(Answer(plan));
    s->Plan(0, &plan);
  }
  EXPECT_EQ(plan.tokens.data(), tokens);
}

}  // namespace
}  // namespace sluice::schedule
