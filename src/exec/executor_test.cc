// The executor over a tiny checkpoint, with plans made by hand. Plans of the real scheduler are in
// tests/steps.
#include "exec/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/str_cat.h"
#include "batch/kv_sink_checker_fixture.h"
#include "exec/executor_fixture.h"

namespace sluice::exec {
namespace {

using batch::RowPurpose;
using batch::StepResult;
using ::testing::ElementsAre;

const std::vector<int32_t> kPrompt = {1, 75, 65, 67, 209, 98, 132, 267, 208, 233, 181, 53, 85};

class FakeSink : public batch::KvSink {
 public:
  Status Begin(const batch::BatchPlan& plan) override {
    calls.push_back(StrCat("begin ", plan.step));
    return Answer("begin");
  }
  Status LayerWritten(int layer, int group, EventHandle event) override {
    calls.push_back(StrCat("layer ", layer, " of ", group));
    EXPECT_EQ(event == 0, host);  // the CPU's work is done when the call returns
    if (!host) events.insert(event);
    return Answer(StrCat("layer ", layer));
  }
  Status Finish() override {
    calls.push_back("finish");
    return Answer("finish");
  }
  void Abort() override { calls.push_back("abort"); }

  bool host = true;
  std::set<EventHandle> events;
  std::vector<std::string> calls;
  std::string fail_at;

 private:
  Status Answer(const std::string& place) const {
    return place == fail_at ? Status(StatusCode::kIo, "the peer is gone") : OkStatus();
  }
};

// The parameter is a device of OpenTestDevice.
class ExecutorTest : public ::testing::TestWithParam<std::string> {
 protected:
  PlanBuilder NextPlan() { return PlanBuilder(++step_, tiny_.model->groups().size()); }
  StepResult Run(PlanBuilder& builder, const batch::TestMasks* masks = nullptr,
                 batch::KvSink* sink = nullptr) {
    auto result = tiny_.Run(std::move(builder.plan()), masks, sink);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? std::move(result).value() : StepResult();
  }
  static Drawn Last(const StepResult& result) {
    if (result.tokens.empty()) return {-1, 0};
    return {result.tokens.back().id, result.tokens.back().logprob};
  }
  // The prompt in chunks, then `count` tokens in all, one by one.
  std::vector<Drawn> Generate(int slot, int count, size_t chunk = 100,
                              batch::SamplingParams params = Greedy()) {
    std::vector<Drawn> drawn;
    for (size_t at = 0; at < kPrompt.size(); at += chunk) {
      const size_t n = std::min(chunk, kPrompt.size() - at);
      const bool last = at + n == kPrompt.size();
      PlanBuilder plan = NextPlan();
      if (at == 0) plan.Start(slot, params, kPrompt);
      plan.Entry(
          slot, static_cast<int>(at),
          {kPrompt.begin() + static_cast<long>(at), kPrompt.begin() + static_cast<long>(at + n)},
          last ? std::vector<TestRow>{{static_cast<int>(n) - 1}} : std::vector<TestRow>{});
      const StepResult result = Run(plan);
      if (last) drawn.push_back(Last(result));
    }
    while (static_cast<int>(drawn.size()) < count) {
      PlanBuilder plan = NextPlan();
      plan.Entry(slot, static_cast<int>(kPrompt.size() + drawn.size()) - 1, {drawn.back().id},
                 {{0}});
      drawn.push_back(Last(Run(plan)));
    }
    return drawn;
  }

  bool queued() const { return GetParam() != "cpu"; }

  TinyExecutor tiny_{"llama", {.device = GetParam()}};
  uint64_t step_ = 0;
};

TEST_P(ExecutorTest, AnEmptyPlanSteps) {
  FakeSink sink;
  sink.host = !queued();
  PlanBuilder plan = NextPlan();
  const StepResult result = Run(plan, nullptr, &sink);
  EXPECT_EQ(result.step, 1u);
  EXPECT_TRUE(result.entries.empty());
  EXPECT_TRUE(sink.calls.empty());  // nothing was written
  EXPECT_EQ(Generate(0, 2).size(), 2u);
}

TEST_P(ExecutorTest, TheSinkHearsOfEveryLayerInOrder) {
  FakeSink sink;
  sink.host = !queued();
  batch::KvSinkChecker checker(tiny_.store->layer_count(), &sink);
  for (uint64_t step = 1; step <= 2; ++step) {
    PlanBuilder plan = NextPlan();
    plan.Entry(0, 0, kPrompt, {});
    Run(plan, nullptr, &checker);
  }
  EXPECT_THAT(sink.calls, ElementsAre("begin 1", "layer 0 of 0", "layer 1 of 0", "finish",
                                      "begin 2", "layer 0 of 0", "layer 1 of 0", "finish"));
  EXPECT_FALSE(checker.open());
}

TEST_P(ExecutorTest, TheSinkIsToldToAbortWhenTheForwardFails) {
  const std::vector<Drawn> expected = Generate(0, 3);
  FakeSink sink;
  sink.host = !queued();
  sink.fail_at = "layer 1";
  PlanBuilder plan = NextPlan();
  plan.Entry(0, 0, kPrompt, {{12}});
  const Status status = tiny_.Run(plan.plan(), nullptr, &sink).status();
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(sink.calls, ElementsAre("begin 4", "layer 0 of 0", "layer 1 of 0", "abort"));
  EXPECT_EQ(Generate(0, 3), expected);  // the next request is not hurt
}

TEST_P(ExecutorTest, TheSinkIsToldToAbortWhenTheMasksAreRefused) {
  FakeSink sink;
  sink.host = !queued();
  const batch::TestMasks mask = batch::Banning(0);
  tiny_.spoil_masks = true;
  PlanBuilder plan = NextPlan();
  plan.Start(0, Greedy(), kPrompt).Entry(0, 0, kPrompt, {{12}});
  EXPECT_EQ(tiny_.Run(plan.plan(), &mask, &sink).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(sink.calls.back(), "abort");
}

TEST_P(ExecutorTest, ASinkThatRefusesToBeginOrToFinishIsNotAborted) {
  for (const std::string place : {"begin", "finish"}) {
    FakeSink sink;
    sink.host = !queued();
    sink.fail_at = place;
    PlanBuilder plan = NextPlan();
    plan.Entry(0, 0, kPrompt, {{12}});
    EXPECT_EQ(tiny_.Run(plan.plan(), nullptr, &sink).status().code(), StatusCode::kIo);
    EXPECT_THAT(sink.calls, ::testing::Not(::testing::Contains("abort"))) << place;
  }
}

TEST_P(ExecutorTest, APlanThatTravelledGivesTheSameResult) {
  PlanBuilder plan = NextPlan();
  plan.Start(0, Greedy(), kPrompt).Entry(0, 0, kPrompt, {{5, RowPurpose::kScore, 132}, {12}});
  auto back = batch::Deserialize(batch::Serialize(plan.plan()));
  ASSERT_TRUE(back.ok());
  const auto first = tiny_.Run(plan.plan());
  const auto second = tiny_.Run(*back);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Last(*first), Last(*second));
  EXPECT_EQ(first->scores[0].logprob, second->scores[0].logprob);
}

TEST_P(ExecutorTest, AMaskThatBansTheArgmaxChangesTheToken) {
  const Drawn argmax = Generate(0, 1)[0];
  const batch::TestMasks mask = batch::Banning(argmax.id);
  PlanBuilder plan = NextPlan();
  plan.Start(0, Greedy(), kPrompt).Entry(0, 0, kPrompt, {{12}});
  const StepResult result = Run(plan, &mask);
  EXPECT_NE(Last(result).id, argmax.id);
  // Log-probs stay those of the raw logits: it is the second of them now.
  EXPECT_EQ(result.tokens[0].rank, 1);
  EXPECT_EQ(result.top[result.tokens[0].top_begin].id, argmax.id);
  EXPECT_EQ(result.top[result.tokens[0].top_begin].logprob, argmax.logprob);
}

TEST_P(ExecutorTest, ATokenOfTheStepBeforeIsFilledIn) {
  const std::vector<Drawn> expected = Generate(0, 3);
  PlanBuilder prefill = NextPlan();
  prefill.Start(1, Greedy(), kPrompt).Entry(1, 0, kPrompt, {{5, RowPurpose::kScore, 132}, {12}});
  EXPECT_EQ(Last(Run(prefill)), expected[0]);
  PlanBuilder second = NextPlan();
  second.Entry(1, 13, {batch::kLastDrawn}, {{0}});
  EXPECT_EQ(Last(Run(second)), expected[1]);
  PlanBuilder third = NextPlan();
  third.Entry(1, 14, {batch::kLastDrawn}, {{0}});
  EXPECT_EQ(Last(Run(third)), expected[2]);
}

TEST_P(ExecutorTest, ATokenThatWasNotDrawnForTheSlotIsAnError) {
  PlanBuilder prefill = NextPlan();
  prefill.Start(1, Greedy(), kPrompt).Entry(1, 0, kPrompt, {{5, RowPurpose::kScore, 132}, {12}});
  const int32_t drawn = Last(Run(prefill)).id;
  for (const auto& [slot, first] : {std::pair(0, 13), std::pair(1, 12), std::pair(1, 14)}) {
    PlanBuilder plan(step_ + 1, 1);
    plan.Entry(slot, first, {batch::kLastDrawn}, {{0}});
    EXPECT_EQ(tiny_.Run(plan.plan()).status().code(), StatusCode::kInvalidArgument)
        << slot << " " << first;
  }
  PlanBuilder chunk = NextPlan();  // of another sequence
  chunk.Start(2, Greedy(), kPrompt).Entry(2, 0, {1, 75, 65}, {});
  Run(chunk);
  PlanBuilder good = NextPlan();
  good.Entry(1, 13, {batch::kLastDrawn}, {{0}});
  const Drawn next = Last(Run(good));
  PlanBuilder told = NextPlan();
  told.Entry(1, 13, {drawn}, {{0}});
  EXPECT_EQ(Last(Run(told)), next);
}

TEST_P(ExecutorTest, ChunksDoNotChangeABit) {
  const std::vector<Drawn> whole = Generate(0, 12);
  EXPECT_LT(whole[0].logprob, 0.0f);
  for (const size_t chunk : {1, 3, 5, 8, 12}) EXPECT_EQ(Generate(1, 12, chunk), whole) << chunk;
}

TEST_P(ExecutorTest, ScoresDoNotDependOnTheChunks) {
  const auto scores = [&](size_t chunk) {
    std::vector<float> logprobs;
    for (size_t at = 0; at < kPrompt.size(); at += chunk) {
      const size_t end = std::min(at + chunk, kPrompt.size());
      std::vector<TestRow> rows;
      for (size_t i = at; i < end && i + 1 < kPrompt.size(); ++i) {
        rows.push_back({static_cast<int>(i - at), RowPurpose::kScore, kPrompt[i + 1]});
      }
      batch::SamplingParams params = Greedy();
      params.prompt_top_logprobs = 0;
      PlanBuilder plan = NextPlan();
      if (at == 0) plan.Start(3, params, kPrompt);
      plan.Entry(
          3, static_cast<int>(at),
          {kPrompt.begin() + static_cast<long>(at), kPrompt.begin() + static_cast<long>(end)},
          rows);
      for (const auto& score : Run(plan).scores) logprobs.push_back(score.logprob);
    }
    return logprobs;
  };
  const std::vector<float> whole = scores(100);
  ASSERT_EQ(whole.size(), kPrompt.size() - 1);
  for (const size_t chunk : {1, 4, 7}) EXPECT_EQ(scores(chunk), whole);
}

TEST_P(ExecutorTest, ASequenceGivesTheSameBitsAmongOthers) {
  batch::SamplingParams params;
  params.seed = 9;
  params.temperature = 0.8f;
  params.top_logprobs = 0;
  const std::vector<Drawn> alone = Generate(0, 6, 100, params);
  std::vector<Drawn> among;
  for (int i = 0; i < 6; ++i) {
    PlanBuilder plan = NextPlan();
    // A neighbour on either side: one decodes, one prefills in chunks of five.
    plan.Entry(5, i, {200 + i}, {{0}});
    if (i == 0) {
      plan.Start(2, params, kPrompt).Entry(2, 0, kPrompt, {{12}});
    } else {
      plan.Entry(2, 12 + i, {among.back().id}, {{0}});
    }
    plan.Entry(1, 5 * i, {10, 20, 30 + i, 40, 50}, {{2, RowPurpose::kScore, 7}, {4}});
    const StepResult result = Run(plan);
    const auto& token = result.tokens[result.entries[1].token_begin];
    among.push_back({token.id, token.logprob});
  }
  EXPECT_EQ(among, alone);
}

TEST_P(ExecutorTest, VerifyingEqualsOneByOneDecoding) {
  batch::SamplingParams params;
  params.seed = 5;
  params.temperature = 0.7f;
  params.top_logprobs = 1;
  params.frequency_penalty = 1.0f;
  const std::vector<Drawn> expected = Generate(0, 20, 100, params);
  PlanBuilder prefill = NextPlan();
  prefill.Start(4, params, kPrompt).Entry(4, 0, kPrompt, {{12}});
  std::vector<Drawn> drawn = {Last(Run(prefill))};
  int steps = 0;
  while (drawn.size() < expected.size()) {
    const size_t at = drawn.size();
    const auto draft = [&](size_t i) { return i < expected.size() ? expected[i].id : 3; };
    // Every third step the second draft is wrong, and what it wrote must not stay.
    const int32_t second = steps % 3 == 2 ? (draft(at + 1) + 1) % 320 : draft(at + 1);
    PlanBuilder plan = NextPlan();
    plan.Entry(4, static_cast<int>(kPrompt.size() + at) - 1, {drawn.back().id, draft(at), second},
               {{0, RowPurpose::kVerify, draft(at)}, {1, RowPurpose::kVerify, second}, {2}});
    for (const auto& token : Run(plan).tokens) drawn.push_back({token.id, token.logprob});
    ++steps;
  }
  drawn.resize(expected.size());
  EXPECT_EQ(drawn, expected);
  EXPECT_LT(steps, 12);
}

TEST_P(ExecutorTest, ACopiedBlockHoldsTheSameKv) {
  const std::vector<Drawn> expected = Generate(0, 2);
  // The sequence of slot 0 is copied to the blocks of slot 6 and goes on there.
  PlanBuilder plan = NextPlan();
  for (int i = 0; i < 2; ++i) {
    plan.plan().copies.push_back({0, PlanBuilder::CacheBlock(0, i), PlanBuilder::CacheBlock(6, i)});
  }
  plan.Start(6, Greedy(), kPrompt).Entry(6, 13, {expected[0].id}, {{0}});
  EXPECT_EQ(Last(Run(plan)), expected[1]);
  // Without the copy it would have read other bytes.
  PlanBuilder without = NextPlan();
  without.Start(7, Greedy(), kPrompt).Entry(7, 13, {expected[0].id}, {{0}});
  EXPECT_NE(Last(Run(without)), expected[1]);
}

// Steps launched one behind the other, each before the one before is finished: what is prepared
// for a step is not disturbed by the next, and ids reach it on the device.
TEST_P(ExecutorTest, TwoStepsInFlightGiveTheSameBits) {
  batch::SamplingParams params;
  params.seed = 12;
  params.temperature = 0.9f;
  params.top_logprobs = 2;
  params.min_tokens = 6;  // counts the token that is being drawn
  for (int32_t id = 0; id < 320; id += 2) params.end_ids.push_back(id);
  const std::vector<Drawn> expected = Generate(0, 9, 100, params);
  PlanBuilder prefill = NextPlan();
  prefill.Start(1, params, kPrompt).Entry(1, 0, kPrompt, {{12}});
  ASSERT_TRUE(tiny_.Launch(prefill.plan()).ok());
  std::vector<Drawn> drawn;
  StepResult result;
  for (int i = 0; i < 8; ++i) {
    PlanBuilder plan = NextPlan();
    // A neighbour changes the rows, every other step.
    if (i % 2 == 0) plan.Entry(5, i / 2, {200 + i}, {{0}});
    plan.Entry(1, 13 + i, {batch::kLastDrawn}, {{0}});
    ASSERT_TRUE(tiny_.Launch(plan.plan()).ok());
    EXPECT_EQ(tiny_.executor->in_flight(), 2);
    ASSERT_TRUE(tiny_.Finish(&result).ok());
    drawn.push_back(Last(result));
  }
  ASSERT_TRUE(tiny_.Finish(&result).ok());
  drawn.push_back(Last(result));
  EXPECT_EQ(drawn, expected);
}

TEST_P(ExecutorTest, AThirdStepInFlightAndAStepBesideASinkAreRefused) {
  FakeSink sink;
  sink.host = !queued();
  const auto prefill = [&](int slot) {
    PlanBuilder plan = NextPlan();
    plan.Start(slot, Greedy(), kPrompt).Entry(slot, 0, kPrompt, {{12}});
    return plan.plan();
  };
  StepResult result;
  ASSERT_TRUE(tiny_.Launch(prefill(0)).ok());
  EXPECT_EQ(tiny_.Launch(prefill(1), nullptr, &sink).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(tiny_.Launch(prefill(1)).ok());
  EXPECT_EQ(tiny_.Launch(prefill(2)).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(tiny_.Finish(&result).ok());
  ASSERT_TRUE(tiny_.Finish(&result).ok());
  ASSERT_TRUE(tiny_.Launch(prefill(2), nullptr, &sink).ok());
  EXPECT_EQ(tiny_.Launch(prefill(3)).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(sink.calls.back(), "layer 1 of 0");  // nothing is over before it is waited for
  ASSERT_TRUE(tiny_.Finish(&result).ok());
  EXPECT_EQ(sink.calls.back(), "finish");
  EXPECT_EQ(sink.events.size(), queued() ? 2u : 0u);  // an event of its own for every layer
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecutorTest, ::testing::Values("cpu", "pinned", "plain"),
                         [](const auto& device) { return device.param; });

// Errors that the device finds when it comes to the work.
class QueuedExecutorTest : public ExecutorTest {};

// The clock of the queued device stands between what is put on the stream at one time.
TEST_P(QueuedExecutorTest, StepsAreTimedWhereThatIsAskedFor) {
  for (const bool asked : {false, true}) {
    tiny_.executor = std::move(Executor::Make(*tiny_.device, *tiny_.model, *tiny_.store,
                                              {.max_num_seqs = kTestSlots, .time_steps = asked})
                                   .value());
    for (int at = 0; at < 5; ++at) {
      tiny_.queued().now_s = 0.5 * at;
      PlanBuilder plan = NextPlan();
      if (at == 0) plan.Start(0, Greedy(), kPrompt);
      plan.Entry(0, at, {kPrompt[static_cast<size_t>(at)]}, {{0}});
      Run(plan);
    }
    EXPECT_EQ(tiny_.executor->Totals().busy_s, 0);
    EXPECT_EQ(tiny_.executor->Totals().idle_s, asked ? 2.0 : 0.0);
  }
}

// The largest step first or last, eager and in graphs: all of them get by with what was reserved,
// and that is what the memory plan counts.
TEST_P(QueuedExecutorTest, ScratchMemoryIsReservedOnceForTheLargestStep) {
  const model::ModelOptions& options = tiny_.model->options();
  const auto weights = model::PlanWeights(tiny_.files, *tiny_.device, options.activation);
  const auto planned =
      Executor::ScratchBytes(*weights, tiny_.files.config, *tiny_.device, options, kTestSlots);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  EXPECT_EQ(*planned, 128 * ops::QueuedDevice::kScratchOfRow);
  EXPECT_EQ(tiny_.queued().scratch_reserved, *planned);
  Generate(0, 5);
  PlanBuilder largest = NextPlan();
  for (int slot = 1; slot < 3; ++slot) {
    const std::vector<int32_t> tokens(64, 7);
    largest.Start(slot, Greedy(), tokens);
    largest.Entry(slot, 0, {tokens.begin(), tokens.end()}, {{63}});
  }
  Run(largest);
  Generate(0, 3);
}

TEST(ScratchMemory, AStepInWhichItWouldGrowFails) {
  TinyExecutor tiny("llama", {.device = "greedy"});
  PlanBuilder small(1, 1);
  small.Start(0, Greedy(), kPrompt).Entry(0, 0, kPrompt, {{12}});
  EXPECT_TRUE(tiny.Run(small.plan()).ok()) << "there is room for so few rows";
  PlanBuilder largest(2, 1);
  for (int slot = 1; slot < 3; ++slot) {
    const std::vector<int32_t> tokens(64, 7);
    largest.Start(slot, Greedy(), tokens);
    largest.Entry(slot, 0, {tokens.begin(), tokens.end()}, {{63}});
  }
  const Status status = tiny.Run(largest.plan()).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("scratch memory would grow"));
}

TEST_P(QueuedExecutorTest, AMaskedStepIsSampledByItselfAndTheNextWaitsForThat) {
  const std::vector<Drawn> expected = Generate(0, 3);
  const batch::TestMasks all = batch::Banning(expected[1].id);
  PlanBuilder prompt = NextPlan();
  prompt.Start(1, Greedy(), kPrompt).Entry(1, 0, kPrompt, {{12}});
  batch::BatchPlan plan = prompt.plan();
  batch::MarkMasked(all, &plan);
  const batch::BatchPlan masked = plan;
  auto step = tiny_.executor->Launch(&plan, nullptr);
  ASSERT_TRUE(step.ok());
  EXPECT_TRUE(step->waits_for_masks());
  EXPECT_FALSE(step->ModelIsDone());
  // A step behind it could name tokens that nobody draws yet.
  PlanBuilder behind = NextPlan();
  behind.Entry(1, 13, {batch::kLastDrawn}, {{0}});
  batch::BatchPlan early = behind.plan();
  EXPECT_EQ(tiny_.executor->Launch(&early, nullptr).status().code(),
            StatusCode::kFailedPrecondition);
  ASSERT_TRUE(step->Sample(batch::MasksOf(all, masked, tiny_.model->vocab_size())).ok());
  EXPECT_FALSE(step->waits_for_masks());
  ASSERT_TRUE(tiny_.Launch(behind.plan()).ok());
  StepResult result;
  ASSERT_TRUE(step->Finish(&result).ok());
  EXPECT_EQ(Last(result), expected[0]);
  ASSERT_TRUE(tiny_.Finish(&result).ok());
  EXPECT_EQ(Last(result), expected[1]);
}

TEST_P(QueuedExecutorTest, ATokenOfALateRowCannotBeNamedAndTheRowMayBeComputedAgain) {
  const std::vector<Drawn> expected = Generate(0, 2);
  const batch::TestMasks late = {
      .fill = [](const batch::PlanEntry&, int, std::span<uint32_t>) { return false; }};
  PlanBuilder prompt = NextPlan();
  prompt.Start(1, Greedy(), kPrompt).Entry(1, 0, kPrompt, {{12}});
  ASSERT_TRUE(tiny_.Launch(prompt.plan(), &late).ok());
  PlanBuilder behind = NextPlan();
  behind.Entry(1, 13, {batch::kLastDrawn}, {{0}});
  EXPECT_EQ(tiny_.Launch(behind.plan()).code(), StatusCode::kInvalidArgument);
  StepResult result;
  ASSERT_TRUE(tiny_.Finish(&result).ok());
  EXPECT_TRUE(result.tokens.empty());
  PlanBuilder again = NextPlan();
  again.Entry(1, 12, {kPrompt[12]}, {{0}});
  EXPECT_EQ(Last(Run(again)), expected[0]);
}

// A step that waits for its masks may be dropped, or found to stand on one that failed.
TEST_P(QueuedExecutorTest, AStepThatWaitsForMasksEndsWithoutThemToo) {
  const std::vector<Drawn> expected = Generate(0, 3);
  const batch::TestMasks masks = batch::Banning(0);
  const auto start = [&](const std::vector<int32_t>& tokens, int slot) {
    PlanBuilder chunk = NextPlan();
    chunk.Start(slot, Greedy(), kPrompt).Entry(slot, 0, tokens, {{0}});
    batch::BatchPlan plan = chunk.plan();
    batch::MarkMasked(masks, &plan);
    return tiny_.executor->Launch(&plan, nullptr);
  };
  {
    auto dropped = start({1}, 1);
    ASSERT_TRUE(dropped.ok());
  }
  EXPECT_EQ(tiny_.executor->in_flight(), 0);
  tiny_.queued().FailOp("attention", 1);
  PlanBuilder first = NextPlan();
  first.Start(2, Greedy(), kPrompt).Entry(2, 0, kPrompt, {});
  ASSERT_TRUE(tiny_.Launch(first.plan()).ok());
  auto step = start({1}, 1);
  ASSERT_TRUE(step.ok());
  StepResult result;
  EXPECT_EQ(tiny_.Finish(&result).code(), StatusCode::kDevice);
  EXPECT_EQ(step->Sample({}).code(), StatusCode::kDevice);
  EXPECT_EQ(step->Finish(&result).code(), StatusCode::kDevice);
  EXPECT_EQ(tiny_.executor->in_flight(), 0);
  EXPECT_EQ(Generate(0, 3), expected);
}

TEST_P(QueuedExecutorTest, AnErrorOfTheModelIsFoundWhenItsMasksCameInTime) {
  const std::vector<Drawn> expected = Generate(0, 3);
  const batch::TestMasks masks = batch::Banning(0);
  PlanBuilder plan = NextPlan();
  plan.Start(1, Greedy(), kPrompt).Entry(1, 0, kPrompt, {{12}});
  tiny_.queued().FailOp("attention", 2);
  EXPECT_EQ(tiny_.Run(plan.plan(), &masks).status().code(), StatusCode::kDevice);
  tiny_.queued().FailOp("sample", 1);
  PlanBuilder other = NextPlan();
  other.Start(1, Greedy(), kPrompt).Entry(1, 0, kPrompt, {{12}});
  EXPECT_EQ(tiny_.Run(other.plan(), &masks).status().code(), StatusCode::kDevice);
  EXPECT_EQ(Generate(0, 3), expected);
}

TEST_P(QueuedExecutorTest, SamplingOutsideOfAGraphIsCountedWithItsReason) {
  const std::vector<Drawn> drawn = Generate(0, 1);
  const auto counts = [&](batch::SamplingParams params) {
    const auto before = tiny_.executor->Totals().eager_samplings;
    PlanBuilder plan = NextPlan();
    plan.Start(0, params, kPrompt).Entry(0, static_cast<int>(kPrompt.size()), {drawn[0].id}, {{0}});
    Run(plan);
    const auto after = tiny_.executor->Totals().eager_samplings;
    std::vector<uint64_t> differences;
    for (size_t i = 0; i < after.size(); ++i) differences.push_back(after[i] - before[i]);
    return differences;
  };
  batch::SamplingParams params = Greedy();
  EXPECT_THAT(counts(params), ElementsAre(0, 0, 0));
  for (int32_t id = 0; id < 2000; ++id) params.logit_bias.push_back({id % 256, 0.0f});
  params.logit_bias.resize(1000);
  EXPECT_THAT(counts(params), ElementsAre(0, 0, 0));
  params = Greedy();
  params.distribution = Distribution::kRaw;
  EXPECT_THAT(counts(params), ElementsAre(0, 0, 1));
}

// Graphs hold the counting; nobody has read a step when the next is put behind it.
TEST_P(QueuedExecutorTest, PenaltiesInGraphsSeeWhatTheStepInFlightDraws) {
  batch::SamplingParams params = Greedy();
  params.repetition_penalty = 1.2f;
  params.frequency_penalty = 0.4f;
  const std::vector<Drawn> expected = Generate(0, 8, 100, params);
  const auto eager = tiny_.executor->Totals().eager_samplings;
  const int64_t replays = tiny_.queued().counts().replays;
  StepResult result;
  for (int step = 0; step < 8; ++step) {
    PlanBuilder plan = NextPlan();
    if (step == 0) {
      plan.Start(0, params, kPrompt);
      plan.Entry(0, 0, kPrompt, {{static_cast<int>(kPrompt.size()) - 1}});
    } else {
      plan.Entry(0, static_cast<int>(kPrompt.size()) + step - 1, {batch::kLastDrawn}, {{0}});
    }
    ASSERT_TRUE(tiny_.Launch(plan.plan()).ok());
    if (step == 0) continue;
    ASSERT_TRUE(tiny_.Finish(&result).ok());
    EXPECT_EQ(Last(result), expected[step - 1]) << step;
  }
  ASSERT_TRUE(tiny_.Finish(&result).ok());
  EXPECT_EQ(Last(result), expected[7]);
  EXPECT_EQ(tiny_.executor->Totals().eager_samplings, eager);
  EXPECT_EQ(tiny_.queued().counts().replays - replays, 2 * 7);  // of model and sampling
}

TEST_P(QueuedExecutorTest, AnErrorOfTheDeviceEndsItsStepAndTheOneBehindIt) {
  const std::vector<Drawn> expected = Generate(0, 3);
  PlanBuilder prefill = NextPlan();
  prefill.Start(1, Greedy(), kPrompt).Entry(1, 0, kPrompt, {{12}});
  tiny_.queued().FailOp("attention", 2);
  Status first = tiny_.Launch(prefill.plan());
  PlanBuilder behind = NextPlan();
  behind.Entry(1, 13, {batch::kLastDrawn}, {{0}});
  Status second = tiny_.Launch(behind.plan());
  if (GetParam() == "pinned") {  // copies to plain memory wait, and find it at once
    EXPECT_TRUE(first.ok() && second.ok());
    StepResult result;
    first = tiny_.Finish(&result);
    second = tiny_.Finish(&result);
    EXPECT_THAT(second.message(), ::testing::HasSubstr("which failed"));
  }
  EXPECT_EQ(first.code(), StatusCode::kDevice) << first.message();
  EXPECT_FALSE(second.ok());
  EXPECT_EQ(tiny_.executor->in_flight(), 0);
  EXPECT_EQ(Generate(0, 3), expected);  // the next request is not hurt
}

// A copy that waits may be told of an error of the step before: both have failed then.
TEST_P(QueuedExecutorTest, AnErrorThatALaunchMeetsIsAlsoThatOfTheStepInFlight) {
  PlanBuilder chunk = NextPlan();
  chunk.Start(1, Greedy(), kPrompt).Entry(1, 0, {1, 75, 65}, {});
  tiny_.queued().FailOp("attention", 1);
  ASSERT_TRUE(tiny_.Launch(chunk.plan()).ok());
  PlanBuilder behind = NextPlan();
  behind.Start(2, Greedy(), kPrompt).Entry(2, 0, kPrompt, {{12}});
  const Status launched = tiny_.Launch(behind.plan());
  EXPECT_EQ(launched.ok(), GetParam() == "pinned");
  StepResult result;
  EXPECT_EQ(tiny_.Finish(&result).code(), StatusCode::kDevice);
  if (launched.ok()) {
    EXPECT_EQ(tiny_.Finish(&result).code(), StatusCode::kDevice);
  }
}

// The device tells an error once: here the launch of another step, which fails by itself, hears it.
TEST_P(QueuedExecutorTest, AnErrorOfTheStepInFlightIsNotLostWhenALaunchFailsByItself) {
  PlanBuilder chunk = NextPlan();
  chunk.Start(1, Greedy(), kPrompt).Entry(1, 0, {1, 75, 65}, {});
  tiny_.queued().FailOp("attention", 1);
  ASSERT_TRUE(tiny_.Launch(chunk.plan()).ok());
  const batch::TestMasks mask = batch::Banning(0);
  tiny_.spoil_masks = true;
  PlanBuilder behind = NextPlan();
  behind.Start(2, Greedy(), kPrompt).Entry(2, 0, kPrompt, {{12}});
  EXPECT_FALSE(tiny_.Launch(behind.plan(), &mask).ok());
  StepResult result;
  EXPECT_EQ(tiny_.Finish(&result).code(), StatusCode::kDevice);
}

TEST_P(QueuedExecutorTest, TheSinkIsToldToAbortWhenTheDeviceFails) {
  FakeSink sink;
  sink.host = false;
  PlanBuilder plan = NextPlan();
  plan.Start(0, Greedy(), kPrompt).Entry(0, 0, kPrompt, {{12}});
  tiny_.queued().FailOp("linear", 3);
  EXPECT_EQ(tiny_.Run(plan.plan(), nullptr, &sink).status().code(), StatusCode::kDevice);
  EXPECT_EQ(sink.calls.back(), "abort");
}

TEST_P(QueuedExecutorTest, AStepThatIsDroppedTakesTheOneBehindItAlongAndNoMore) {
  const std::vector<Drawn> expected = Generate(0, 3);
  PlanBuilder prompt = NextPlan();
  prompt.Start(1, Greedy(), kPrompt).Entry(1, 0, kPrompt, {{12}});
  ASSERT_TRUE(tiny_.Launch(prompt.plan()).ok());
  PlanBuilder behind = NextPlan();
  behind.Entry(1, static_cast<int>(kPrompt.size()), {batch::kLastDrawn}, {{0}});
  ASSERT_TRUE(tiny_.Launch(behind.plan()).ok());
  tiny_.steps.pop_front();
  EXPECT_EQ(tiny_.executor->in_flight(), 1);
  batch::StepResult result;
  EXPECT_THAT(tiny_.Finish(&result).message(), ::testing::HasSubstr("were dropped"));
  EXPECT_EQ(Generate(0, 3), expected);
}

// K and V as codes, with an F32 scale of each token and head beside them. The queued device sees
// that no block's lie outside the cache; the highest slot has the last blocks.
TEST(CodedKv, ABatchGivesTheBitsOfChunksOfItAndIsNearTheExactOnes) {
  const auto run = [](const std::string& device, DType kv, const std::vector<int>& chunks) {
    TinyExecutor tiny("llama", {.device = device, .kv_dtype = kv});
    std::vector<float> logprobs;
    uint64_t step = 0;
    int at = 0;
    for (const int n : chunks) {
      PlanBuilder plan(++step, 1);
      for (const int slot : {0, kTestSlots - 1}) {
        if (at == 0) plan.Start(slot, Greedy(), kPrompt);
        plan.Entry(slot, at, {kPrompt.begin() + at, kPrompt.begin() + at + n}, {{n - 1}});
      }
      at += n;
      const auto result = tiny.Run(plan.plan());
      EXPECT_TRUE(result.ok()) << result.status().message();
      if (!result.ok()) return std::vector<float>(2);
      logprobs = {result->tokens[0].logprob, result->tokens[1].logprob};
    }
    return logprobs;
  };
  const float exact = run("cpu", DType::kF16, {13})[0];
  for (const DType kv : {DType::kI8, DType::kF8E4M3}) {
    const std::vector<float> whole = run("cpu", kv, {13});
    EXPECT_EQ(whole[0], whole[1]);
    EXPECT_NE(whole[0], exact);
    EXPECT_NEAR(whole[0], exact, 0.1);
    for (const char* device : {"cpu", "pinned"}) {
      EXPECT_EQ(run(device, kv, {5, 1, 1, 6}), whole) << device << " " << Name(kv);
    }
  }
}

// On a device that fails in one op, whichever: the launch itself ends with the name of what failed.
TEST(CheckEachOp, NamesTheOpThatFailed) {
  TinyExecutor tiny("llama", {.device = "checked"});
  EXPECT_EQ(tiny.device->facts().graphs, device::GraphSupport::kNone);
  uint64_t step = 0;
  for (const std::string op : {"embedding", "norm", "linear", "rope_kv", "attention",
                               "gated_activation", "gather_rows", "sample"}) {
    PlanBuilder plan(++step, 1);
    plan.Start(0, Greedy(), kPrompt).Entry(0, 0, kPrompt, {{12}});
    tiny.queued().FailOp(op);
    const Status status = tiny.Launch(plan.plan());
    EXPECT_EQ(status.code(), StatusCode::kDevice) << op;
    EXPECT_THAT(status.message(), ::testing::HasSubstr("_" + op + ": " + op + " failed"));
    EXPECT_EQ(tiny.executor->in_flight(), 0);
  }
  PlanBuilder plan(++step, 1);
  plan.Start(0, Greedy(), kPrompt).Entry(0, 0, kPrompt, {{12}});
  tiny.queued().FailOp("");
  const auto checked = tiny.Run(plan.plan());
  ASSERT_TRUE(checked.ok()) << checked.status().message();
  TinyExecutor plain("llama", {.device = "pinned"});
  PlanBuilder again(1, 1);
  again.Start(0, Greedy(), kPrompt).Entry(0, 0, kPrompt, {{12}});
  EXPECT_EQ(checked->tokens[0].id, plain.Run(again.plan())->tokens[0].id);
}

INSTANTIATE_TEST_SUITE_P(Devices, QueuedExecutorTest, ::testing::Values("pinned", "plain"),
                         [](const auto& device) { return device.param; });

}  // namespace
}  // namespace sluice::exec
