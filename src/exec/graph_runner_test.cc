// Decode steps through recorded graphs against the same steps run eagerly, on a device whose memory
// the host cannot read.
#include "exec/graph_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "batch/kv_sink_checker_fixture.h"
#include "exec/executor_fixture.h"

namespace sluice::exec {
namespace {

using batch::StepResult;
using device::GraphSupport;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr GraphSupport kLevels[] = {GraphSupport::kNone, GraphSupport::kPiecewise,
                                    GraphSupport::kFull};

TEST(GraphRunner, BucketsEndWithTheLargestBatch) {
  EXPECT_THAT(BucketSizes(1), ElementsAre(1));
  EXPECT_THAT(BucketSizes(8), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(BucketSizes(50), ElementsAre(1, 2, 4, 8, 16, 24, 32, 48, 50));
  EXPECT_THAT(BucketSizes(300),
              ElementsAre(1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 300));
}

TEST(GraphRunner, BucketsWithDraftsAreFewAndNeverLargerThanAStep) {
  EXPECT_THAT(QuerySizes(1), ElementsAre(1));
  EXPECT_THAT(QuerySizes(2), ElementsAre(1, 2));
  EXPECT_THAT(QuerySizes(4), ElementsAre(1, 3, 4));
  EXPECT_THAT(QuerySizes(9), ElementsAre(1, 3, 5, 9));
  using B = BucketShape;
  EXPECT_THAT(BucketShapes(4, 1, 64), ElementsAre(B{1, 1}, B{2, 2}, B{4, 4}));
  EXPECT_THAT(BucketShapes(4, 9, 16),
              ElementsAre(B{1, 1}, B{1, 3}, B{1, 5}, B{1, 9}, B{2, 2}, B{2, 6}, B{2, 10}, B{2, 16},
                          B{4, 4}, B{4, 12}, B{4, 16}));
  EXPECT_THAT(BucketShapes(4, 3, 4), ElementsAre(B{1, 1}, B{1, 3}, B{2, 2}, B{2, 4}, B{4, 4}));
  EXPECT_EQ(BucketsNote(4, 9, 0),
            "graphs for steps of 1 2 4 sequences, up to 1 3 5 9 tokens for each, captured at the "
            "second step of each");
}

TEST(GraphRunner, ChunksHaveFewSizesAndLogitsForTheirSequencesAlone) {
  EXPECT_THAT(ChunkSizes(0), ElementsAre());
  EXPECT_THAT(ChunkSizes(10), ElementsAre(10));
  EXPECT_THAT(ChunkSizes(16), ElementsAre(16));
  EXPECT_THAT(ChunkSizes(100), ElementsAre(16, 32, 64, 100));
  using B = BucketShape;
  EXPECT_THAT(ChunkShapes(64, 0), ElementsAre());
  EXPECT_THAT(ChunkShapes(3, 20), ElementsAre(B{3, 16, true}, B{3, 20, true}));
  EXPECT_THAT(ChunkShapes(30, 40), ElementsAre(B{8, 16, true}, B{16, 16, true}, B{8, 32, true},
                                               B{30, 32, true}, B{8, 40, true}, B{30, 40, true}));
  EXPECT_EQ((B{8, 64, true}).rows(), 8);
  EXPECT_EQ((B{8, 64}).rows(), 64);
  EXPECT_EQ(BucketsNote(2, 1, 30),
            "graphs for steps of 1 2 sequences, and of chunks in 16 30 tokens, captured at the "
            "second step of each");
}

TEST(GraphRunner, TheMemoryPlanCountsTheGraphsOfChunks) {
  files::ModelConfig config;
  config.num_layers = 2;
  const model::ModelOptions options = {.max_tokens = 512, .max_logits_rows = 64};
  device::DeviceFacts facts;
  facts.graphs = GraphSupport::kPiecewise;
  facts.graph_launch_bytes = 100;
  const size_t without = Executor::GraphBytes(config, options, facts, {.max_num_seqs = 4});
  EXPECT_GT(without, 0u);
  Executor::Options wanted = {.max_num_seqs = 4, .graph_chunk_tokens = 1 << 20};
  EXPECT_EQ(Executor::GraphBytes(config, options, facts, wanted),
            without / BucketShapes(4, 1, 64).size() * (BucketShapes(4, 1, 64).size() + 6));
  wanted.graphs = GraphSupport::kNone;
  EXPECT_EQ(Executor::GraphBytes(config, options, facts, wanted), 0u);
  facts.graphs = GraphSupport::kNone;
  EXPECT_EQ(Executor::GraphBytes(config, options, facts, {.max_num_seqs = 4}), 0u);
}

TEST(GraphRunner, TheMemoryPlanCountsTheGraphsOfDrafts) {
  files::ModelConfig config;
  config.num_layers = 2;
  const model::ModelOptions options = {.max_tokens = 64, .max_logits_rows = 64};
  device::DeviceFacts facts;
  facts.graphs = GraphSupport::kFull;
  facts.graph_launch_bytes = 100;
  const size_t without = Executor::GraphBytes(config, options, facts, {.max_num_seqs = 4});
  EXPECT_GT(without, 0u);
  EXPECT_EQ(Executor::GraphBytes(config, options, facts, {.max_num_seqs = 4, .draft_tokens = 8}),
            without / BucketShapes(4, 1, 64).size() * BucketShapes(4, 9, 64).size());
}

TEST(GraphRunner, AParameterOfAnotherSizeIsAnError) {
  ops::QueuedDevice device;
  auto stream = std::move(device.CreateStream().value());
  constexpr size_t kBytes[] = {256, 512};
  const auto memory = std::move(device.Allocate(512, device::MemoryKind::kDevice).value());
  GraphRunner runner(device, GraphSupport::kFull, {{1, 1}, {2, 2}}, kBytes, memory.view(),
                     [](device::Stream&, int) { return OkStatus(); });
  const auto host = std::move(device.Allocate(512, device::MemoryKind::kPinned).value());
  device::View wrong = host.view(), right = host.view();
  wrong.bytes = 128;
  right.bytes = 256;
  for (int i = 0; i < 3; ++i) {  // eager, captured, replayed
    EXPECT_FALSE(runner.Run(*stream, 0, wrong).ok()) << i;
    EXPECT_TRUE(runner.Run(*stream, 0, right).ok()) << i;
    EXPECT_EQ(runner.captured().size(), i == 0 ? 0u : 1u);  // scratch memory grows at first
  }
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_THAT(runner.captured(), ElementsAre(BucketShape{1, 1}));
}

TEST(GraphRunner, ABodyThatCannotBeCapturedRunsEagerly) {
  ops::QueuedDevice device;
  auto stream = std::move(device.CreateStream().value());
  int runs = 0;
  constexpr size_t kBytes[] = {256};
  const auto memory = std::move(device.Allocate(256, device::MemoryKind::kDevice).value());
  GraphRunner runner(device, GraphSupport::kFull, {{4, 4}}, kBytes, memory.view(),
                     [&](device::Stream& on, int) {
                       ++runs;
                       return on.Synchronize();  // refused inside a capture
                     });
  const auto host = std::move(device.Allocate(256, device::MemoryKind::kPinned).value());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(runner.Run(*stream, 0, host.view()).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(runs, 5);  // four steps and the attempt
  EXPECT_TRUE(runner.captured().empty());
  EXPECT_EQ(device.counts().replays, 0);
}

struct Token {
  int32_t id = 0;
  float logprob = 0;
  friend bool operator==(const Token&, const Token&) = default;
};
using Answers = std::vector<std::vector<Token>>;  // by sequence

// Allows every other token, by the place of the token to be drawn.
batch::TestMasks EveryOther() {
  return {.fill = [](const batch::PlanEntry& entry, int, std::span<uint32_t> allowed) {
    std::fill(allowed.begin(), allowed.end(),
              entry.first_position % 2 == 0 ? ~0u / 3 : ~0u / 3 * 2);
    return true;
  }};
}

class CountingSink : public batch::KvSink {
 public:
  Status Begin(const batch::BatchPlan&) override { return OkStatus(); }
  Status LayerWritten(int, int, EventHandle) override { return OkStatus(); }
  Status Finish() override {
    ++forwards;
    return OkStatus();
  }
  void Abort() override { ADD_FAILURE(); }
  int forwards = 0;
};

// What a traffic has besides.
struct Besides {
  int biased = 0;                           // ids of each sequence
  const batch::TestMasks* masks = nullptr;  // of every third decode step
  batch::KvSink* sink = nullptr;            // likewise
};

// Sequences that come and go, so that batches cross the buckets and every replay finds other block
// tables, lengths, positions and rows.
class Traffic {
 public:
  Traffic(const std::string& model, const std::string& device,
          GraphSupport graphs = GraphSupport::kFull)
      : tiny_(model, {.device = device, .graphs = graphs}) {}

  // Runs `steps` decode steps; `launch_ahead` keeps two in flight. Different seeds draw another
  // traffic.
  Answers Run(int steps, uint64_t seed, bool launch_ahead, const Besides& besides = {}) {
    biased_ = besides.biased;
    std::mt19937_64 random(seed);
    Answers answers;
    std::vector<Live> live;
    for (int step = 0; step < steps; ++step) {
      if (static_cast<int>(live.size()) < kTestSlots && random() % 2 == 0) {
        Admit(&random, &answers, &live);
      }
      if (live.size() > 1 && random() % 5 == 0) {
        Drain(&answers);
        live.erase(live.begin() + static_cast<long>(random() % live.size()));
      }
      std::erase_if(live, [](const Live& l) { return l.length + 1 >= kTestLength; });
      if (live.empty()) continue;
      std::shuffle(live.begin(), live.end(), random);
      PlanBuilder plan(++step_, tiny_.model->groups().size());
      std::vector<size_t> who;
      for (size_t i = 0; i < live.size(); ++i) {
        const batch::TokenRef token =
            live[i].row >= 0 ? batch::kLastDrawn : answers[live[i].answer].back().id;
        plan.Entry(live[i].slot, live[i].length++, {token}, {{0}});
        who.push_back(live[i].answer);
      }
      const bool third = ++decodes_ % 3 == 0;
      EXPECT_TRUE(
          tiny_.Launch(plan.plan(), third ? besides.masks : nullptr, third ? besides.sink : nullptr)
              .ok());
      flying_.push_back(who);
      if (flying_.size() == 2) Finish(&answers);
      if (!launch_ahead) Drain(&answers);
      for (size_t i = 0; i < live.size(); ++i) {
        live[i].row = flying_.empty() ? -1 : static_cast<int>(i);
      }
    }
    Drain(&answers);
    return answers;
  }
  TinyExecutor& tiny() { return tiny_; }
  int decodes() const { return decodes_; }

 private:
  struct Live {
    int slot = 0, length = 0;
    int row = -1;  // of the step in flight that draws its last token
    size_t answer = 0;
  };
  void Admit(std::mt19937_64* random, Answers* answers, std::vector<Live>* live) {
    Drain(answers);
    for (Live& l : *live) l.row = -1;
    int slot = 0;
    while (std::any_of(live->begin(), live->end(), [&](const Live& l) { return l.slot == slot; })) {
      ++slot;
    }
    std::vector<int32_t> prompt(2 + (*random)() % 30);
    for (int32_t& id : prompt) id = 3 + static_cast<int32_t>((*random)() % 120);
    batch::SamplingParams params;
    params.seed = (*random)();
    params.temperature = slot % 2 == 0 ? 0.0f : 0.9f;
    params.top_logprobs = slot % 3 == 0 ? -1 : 1;
    params.min_tokens = 5;
    params.end_ids = {7, 8, 9};
    if (slot % 3 == 1) params.logit_bias = {{50, 2.0f}, {60, -3.0f}};
    for (int i = 0; i < biased_; ++i) params.logit_bias.push_back({10 + i, 0.1f * (i % 7)});
    PlanBuilder plan(++step_, tiny_.model->groups().size());
    plan.Start(slot, params, prompt)
        .Entry(slot, 0, prompt, {{static_cast<int>(prompt.size()) - 1}});
    const auto result = tiny_.Run(plan.plan());
    ASSERT_TRUE(result.ok()) << result.status().message();
    live->push_back({slot, static_cast<int>(prompt.size()), -1, answers->size()});
    answers->push_back({{result->tokens[0].id, result->tokens[0].logprob}});
  }
  void Finish(Answers* answers) {
    StepResult result;
    const Status status = tiny_.Finish(&result);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < flying_.front().size(); ++i) {
      (*answers)[flying_.front()[i]].push_back({result.tokens[i].id, result.tokens[i].logprob});
    }
    flying_.erase(flying_.begin());
  }
  void Drain(Answers* answers) {
    while (!flying_.empty()) Finish(answers);
  }

  TinyExecutor tiny_;
  uint64_t step_ = 0;
  int decodes_ = 0, biased_ = 0;
  std::vector<std::vector<size_t>> flying_;  // who is in the steps in flight
};

class Graphs : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, Graphs, ::testing::Values("llama", "gemma2", "qwen3"),
                         [](const auto& name) { return name.param; });

TEST_P(Graphs, ReplayedStepsGiveTheBitsOfEagerOnes) {
  const Answers expected = Traffic(GetParam(), "cpu").Run(120, 1, false);
  EXPECT_GT(expected.size(), 10u);
  for (const char* device : {"pinned", "plain", "nographs"}) {
    for (const bool ahead : {false, true}) {
      for (const auto graphs : kLevels) {
        Traffic traffic(GetParam(), device, graphs);
        EXPECT_TRUE(traffic.Run(120, 1, ahead) == expected)
            << device << ahead << static_cast<int>(graphs);
        const bool replays = graphs != GraphSupport::kNone && std::string(device) != "nographs";
        EXPECT_EQ(traffic.tiny().queued().counts().replays > 60, replays);
        EXPECT_EQ(traffic.tiny().executor->captured().size() > 2, replays);
      }
    }
  }
}

// Steps of a bucket's size that have something besides, between others. `eager`: a part of theirs,
// the model or sampling, is not replayed but runs over the bucket's inputs.
void CompareSteps(const std::string& model, const Besides& besides, bool eager) {
  const Answers plain = Traffic(model, "cpu").Run(90, 3, false);
  const Answers expected = Traffic(model, "cpu").Run(90, 3, false, besides);
  EXPECT_EQ(expected == plain, besides.sink != nullptr);
  for (const char* device : {"pinned", "plain"}) {
    for (const bool ahead : {false, true}) {
      if (ahead && besides.sink != nullptr) continue;  // its steps run alone
      Traffic traffic(model, device);
      EXPECT_TRUE(traffic.Run(90, 3, ahead, besides) == expected) << device << ahead;
      // A step has two graphs; each bucket's first one runs without.
      const int64_t replays = traffic.tiny().queued().counts().replays;
      const int64_t missing = 2 * traffic.decodes() - replays;
      EXPECT_GT(replays, traffic.decodes());
      EXPECT_EQ(missing > 20, eager) << missing;
      EXPECT_EQ(missing <= 8, !eager) << missing;
    }
  }
}

TEST_P(Graphs, StepsWithMasksStayInTheirGraphs) {
  const batch::TestMasks masks = EveryOther();
  CompareSteps(GetParam(), {.masks = &masks}, false);
}

TEST_P(Graphs, ASinkHearsOfEveryLayerOfADecodeStep) {
  CountingSink sink;
  batch::KvSinkChecker checker(TinyExecutor(GetParam()).store->layer_count(), &sink);
  CompareSteps(GetParam(), {.sink = &checker}, true);
  EXPECT_GT(sink.forwards, 3 * 20);  // the checker lets none end before its last layer
}

TEST(GraphStep, MoreEditsThanABucketHoldsGiveTheBitsOfEagerSteps) {
  // 1,024 and 16 for each sequence: too many for six.
  CompareSteps("llama", {.biased = 200}, true);
}

// A mask may take long to make; the device computes meanwhile.
TEST(GraphStep, TheModelIsOnTheStreamBeforeTheMasksCome) {
  TinyExecutor tiny("llama", {.device = "pinned"});
  const batch::TestMasks masks = EveryOther();
  for (int step = 1; step <= 4; ++step) {
    PlanBuilder builder(step, 1);
    if (step == 1) builder.Start(0, {}, {1});
    builder.Entry(0, step - 1, {1}, {{0}});
    batch::BatchPlan plan = builder.plan();
    batch::MarkMasked(masks, &plan);
    const batch::BatchPlan kept = plan;
    const int64_t before = tiny.queued().counts().replays;
    auto launched = tiny.executor->Launch(&plan, nullptr);
    ASSERT_TRUE(launched.ok());
    EXPECT_EQ(tiny.queued().counts().replays - before, step > 1 ? 1 : 0);
    ASSERT_TRUE(launched->Sample(batch::MasksOf(masks, kept, tiny.model->vocab_size())).ok());
    EXPECT_EQ(tiny.queued().counts().replays - before, step > 1 ? 2 : 0);
    StepResult result;
    ASSERT_TRUE(launched->Finish(&result).ok());
  }
}

TEST_P(Graphs, AWarmUpChangesNoAnswerAndLeavesTheSmallestGraph) {
  const Answers expected = Traffic(GetParam(), "cpu").Run(60, 2, false);
  for (const char* device : {"pinned", "plain", "nographs"}) {
    Traffic traffic(GetParam(), device);
    const Status status = traffic.tiny().executor->WarmUp();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(traffic.tiny().executor->in_flight(), 0);
    EXPECT_EQ(traffic.tiny().executor->captured(), std::string(device) == "nographs"
                                                       ? std::vector<BucketShape>()
                                                       : std::vector<BucketShape>({{1, 1}}));
    EXPECT_TRUE(traffic.Run(60, 2, true) == expected) << device;
  }
}

TEST(Executor, IsMadeWithoutWaitingForTheDevice) {
  for (const auto graphs : kLevels) {
    TinyExecutor tiny("llama", {.device = "pinned"});
    const int64_t before = tiny.queued().counts().syncs;
    ASSERT_TRUE(Executor::Make(*tiny.device, *tiny.model, *tiny.store, {.graphs = graphs}).ok());
    EXPECT_EQ(tiny.queued().counts().syncs, before) << static_cast<int>(graphs);
  }
}

TEST(GraphStep, NothingIsCapturedBeforeTheCacheIsBoundNorInABucketsFirstStep) {
  TinyExecutor tiny("llama",
                    {.device = "pinned"});  // the model is loaded, the cache made and bound
  EXPECT_EQ(tiny.queued().counts().captures, 0);
  PlanBuilder prompt(1, 1);
  prompt.Start(0, {}, {1, 5}).Entry(0, 0, {1, 5}, {{1}});
  ASSERT_TRUE(tiny.Run(prompt.plan()).ok());
  EXPECT_EQ(tiny.queued().counts().captures, 0);
  for (const int step : {2, 3, 4}) {  // eager, captured, replayed
    PlanBuilder decode(static_cast<uint64_t>(step), 1);
    decode.Entry(0, step, {batch::kLastDrawn}, {{0}});
    ASSERT_TRUE(tiny.Run(decode.plan()).ok());
    EXPECT_EQ(tiny.queued().counts().captures, step == 2 ? 0 : 2) << step;  // model and sampling
  }
}

TEST(WarmUp, CountsForNoStepAndItsRowsCannotBeNamed) {
  TinyExecutor tiny("llama", {.device = "pinned"});
  const auto executor = std::move(
      Executor::Make(*tiny.device, *tiny.model, *tiny.store, {.time_steps = true}).value());
  tiny.queued().now_s = 5;
  ASSERT_TRUE(executor->WarmUp().ok());
  EXPECT_GT(tiny.queued().counts().ops, 0);
  EXPECT_EQ(executor->Totals().kernels, 0u);
  tiny.queued().now_s = 9;
  batch::StepResult result;
  for (const uint64_t step : {1, 2, 3, 4, 5}) {
    PlanBuilder late(step, 1);
    late.Entry(0, 0, {batch::kLastDrawn}, {{0}});
    const Status status = executor->Launch(&late.plan(), nullptr).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("none was drawn there"));
  }
  PlanBuilder first(1, 1);
  first.Start(0, {}, {1}).Entry(0, 0, {1}, {{0}});
  Step step = std::move(executor->Launch(&first.plan(), nullptr).value());
  ASSERT_TRUE(step.Finish(&result).ok());
  EXPECT_GT(executor->Totals().kernels, 10u);
  EXPECT_EQ(executor->Totals().busy_s, 0);
  EXPECT_EQ(executor->Totals().idle_s, 0);
}

TEST(WarmUp, TellsWhyTheDeviceCannotRunAStep) {
  TinyExecutor tiny("llama", {.device = "pinned"});
  tiny.queued().FailOp("attention");
  const Status status = tiny.executor->WarmUp();
  EXPECT_EQ(status.code(), StatusCode::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("the first steps on cuda:3 failed"));
}

// What a driver is called for in a step that is replayed, its end included.
TEST(GraphStep, TakesFewHostCallsWhateverTheBatch) {
  TinyExecutor tiny("llama", {.device = "pinned"});
  const std::vector<int32_t> prompt = {1, 75, 65, 67};
  uint64_t step = 0;
  for (int slot = 0; slot < kTestSlots; ++slot) {
    PlanBuilder plan(++step, 1);
    plan.Start(slot, {}, prompt).Entry(slot, 0, prompt, {{3}});
    ASSERT_TRUE(tiny.Run(plan.plan()).ok());
  }
  for (const int sequences : {1, 3, kTestSlots}) {
    int64_t calls = 0;
    for (int i = 0; i < 4; ++i) {
      PlanBuilder plan(++step, 1);
      for (int slot = 0; slot < sequences; ++slot) plan.Entry(slot, 4 + i, {9}, {{0}});
      const int64_t before = tiny.queued().counts().sum();
      ASSERT_TRUE(tiny.Run(plan.plan()).ok());
      calls = tiny.queued().counts().sum() - before;
    }
    EXPECT_LE(calls, 6) << sequences;
  }
  EXPECT_EQ(tiny.queued().counts().captures, 2 * 3);
}

// Edits of logits go with the other inputs; only where they are very many, in a copy of their own.
TEST(GraphStep, AStepWithoutAGraphHasOneCopyThereAndOneBack) {
  TinyExecutor tiny("llama", {.device = "pinned", .graphs = GraphSupport::kNone});
  const std::vector<int32_t> prompt = {1, 75, 65, 67};
  uint64_t step = 0;
  for (const int biases : {0, 100, 200}) {
    batch::SamplingParams sampling;
    sampling.top_logprobs = 3;
    for (int i = 0; i < biases; ++i) sampling.logit_bias.push_back({i, 0.5f});
    for (const bool starts : {true, false}) {
      PlanBuilder plan(++step, 1);
      for (int slot = 0; slot < kTestSlots; ++slot) {
        if (starts) plan.Start(slot, sampling, prompt).Entry(slot, 0, prompt, {{3}});
        if (!starts) plan.Entry(slot, 4, {batch::kLastDrawn}, {{0}});
      }
      const int64_t before = tiny.queued().counts().copies;
      ASSERT_TRUE(tiny.Run(plan.plan()).ok());
      EXPECT_EQ(tiny.queued().counts().copies - before, biases == 200 ? 3 : 2) << biases << starts;
    }
  }
}

TEST(GraphStep, AnErrorInsideAReplayIsFoundAtTheEndAndTheNextStepRuns) {
  TinyExecutor tiny("llama", {.device = "pinned"});
  const std::vector<int32_t> prompt = {1, 75, 65, 67};
  uint64_t step = 0;
  PlanBuilder prefill(++step, 1);
  prefill.Start(0, {}, prompt).Entry(0, 0, prompt, {{3}});
  ASSERT_TRUE(tiny.Run(prefill.plan()).ok());
  for (int i = 0; i < 5; ++i) {
    PlanBuilder plan(++step, 1);
    plan.Entry(0, 4 + i, {9}, {{0}});
    if (i == 3) tiny.queued().FailOp("norm", 2);
    EXPECT_EQ(tiny.Run(plan.plan()).status().code(), i == 3 ? StatusCode::kDevice : StatusCode::kOk)
        << i;
  }
}

TEST(GraphStep, StepsBuiltOnAFailedOneSaySo) {
  TinyExecutor tiny("llama", {.device = "pinned"});
  const std::vector<int32_t> prompt = {1, 75, 65, 67};
  PlanBuilder prefill(1, 1), second(2, 1), third(3, 1), afresh(4, 1);
  prefill.Start(0, {}, prompt).Entry(0, 0, prompt, {{3}});
  second.Entry(0, 4, {batch::kLastDrawn}, {{0}});
  third.Entry(0, 5, {batch::kLastDrawn}, {{0}});
  afresh.Start(0, {}, prompt).Entry(0, 0, prompt, {{3}});
  tiny.queued().FailOp("norm", 2);
  ASSERT_TRUE(tiny.Launch(prefill.plan()).ok());
  ASSERT_TRUE(tiny.Launch(second.plan()).ok());
  StepResult result;
  EXPECT_EQ(tiny.Finish(&result).code(), StatusCode::kDevice);
  // Planned before the failure of the first was known.
  const Status late = tiny.Launch(third.plan());
  EXPECT_EQ(late.code(), StatusCode::kDevice);
  EXPECT_EQ(late.message(), "it was built on step 2, which failed");
  EXPECT_THAT(tiny.Finish(&result).message(), HasSubstr("it was built on step 1, which failed"));
  EXPECT_TRUE(tiny.Run(afresh.plan()).ok());
}

// Ops by name, outside of graphs, in a traffic whose answers are right.
int64_t EagerCalls(const std::string& model, const std::string& device, GraphSupport level,
                   const std::string& op) {
  Traffic traffic(model, device, level);
  EXPECT_TRUE(traffic.Run(90, 4, true) == Traffic(model, "cpu").Run(90, 4, false)) << device;
  EXPECT_GT(traffic.tiny().executor->captured().size(), 2u) << device;
  return traffic.tiny().queued().counts().eager[op];
}

// The device of these refuses to capture attention.
TEST_P(Graphs, StepsInPiecesGiveTheBitsOfEagerOnesAndLeaveAttentionOut) {
  for (const auto& [device, level] :
       {std::pair{"pinned", GraphSupport::kPiecewise}, {"noattention", GraphSupport::kFull}}) {
    EXPECT_LT(EagerCalls(GetParam(), device, level, "rope_kv"),
              EagerCalls(GetParam(), device, level, "attention") / 2);
  }
  EXPECT_EQ(EagerCalls(GetParam(), "pinned", GraphSupport::kFull, "attention"),
            EagerCalls(GetParam(), "pinned", GraphSupport::kFull, "rope_kv"));
}

TEST_P(Graphs, AnOpThatCannotBeCapturedRunsBetweenTheGraphsOfTheOthers) {
  EXPECT_LT(EagerCalls(GetParam(), "nonorms", GraphSupport::kFull, "attention"),
            EagerCalls(GetParam(), "nonorms", GraphSupport::kFull, "norm") / 4);
  EXPECT_LT(EagerCalls(GetParam(), "nosampling", GraphSupport::kFull, "keep_drawn"),
            EagerCalls(GetParam(), "nosampling", GraphSupport::kFull, "sample") / 2);
}

// A graph ends and the next begins at each layer's attention.
TEST(GraphStep, InPiecesHasAGraphMoreThanLayers) {
  TinyExecutor tiny("llama", {.device = "pinned", .graphs = GraphSupport::kPiecewise});
  const int layers = tiny.store->layer_count();
  for (const int step : {1, 2, 3, 4}) {
    const ops::QueuedDevice::Counts before = tiny.queued().counts();
    PlanBuilder plan(static_cast<uint64_t>(step), 1);
    if (step == 1) plan.Start(0, {}, {1});
    plan.Entry(0, step - 1, {step == 1 ? 1 : batch::kLastDrawn}, {{0}});
    ASSERT_TRUE(tiny.Run(plan.plan()).ok());
    const ops::QueuedDevice::Counts after = tiny.queued().counts();
    EXPECT_EQ(after.captures - before.captures, step == 2 ? layers + 2 : 0) << step;
    EXPECT_EQ(after.replays - before.replays, step == 1 ? 0 : layers + 2) << step;
  }
}

TEST_P(Graphs, ChunksOfPrefillAreReplayedAndGiveTheBitsOfEagerOnes) {
  const Answers expected = Traffic(GetParam(), "cpu").Run(90, 5, false);
  for (const auto level : kLevels) {
    Traffic traffic(GetParam(), "chunks", level);
    EXPECT_TRUE(traffic.Run(90, 5, true) == expected) << static_cast<int>(level);
    const std::vector<BucketShape> captured = traffic.tiny().executor->captured();
    EXPECT_EQ(std::any_of(captured.begin(), captured.end(), [](const auto& b) { return b.chunk; }),
              level != GraphSupport::kNone);
  }
  const int64_t all = EagerCalls(GetParam(), "pinned", GraphSupport::kFull, "rope_kv");
  EXPECT_LT(EagerCalls(GetParam(), "chunks", GraphSupport::kFull, "rope_kv"), all / 2);
}

// With log-probs of the prompt there are more logits than its graph has.
TEST(GraphStep, AChunkIsReplayedWhereItHasNoMoreLogitsThanItsGraph) {
  TinyExecutor tiny("llama", {.device = "chunks"}), plain("llama");
  std::vector<int32_t> prompt(30);
  for (int i = 0; i < 30; ++i) prompt[i] = 3 + i;
  std::vector<TestRow> scored;
  for (int i = 0; i < 20; ++i) scored.push_back({i, batch::RowPurpose::kScore, prompt[i + 1]});
  uint64_t step = 0;
  const auto run = [&](const std::vector<TestRow>& rows) {
    const int64_t before = tiny.queued().counts().replays;
    PlanBuilder plan(++step, 1);
    plan.Start(1, {}, prompt).Entry(1, 0, prompt, rows);
    const auto given = tiny.Run(plan.plan());
    PlanBuilder again(step, 1);
    again.Start(1, {}, prompt).Entry(1, 0, prompt, rows);
    const auto wanted = plain.Run(again.plan());
    EXPECT_TRUE(given.ok() && wanted.ok());
    if (!given.ok() || !wanted.ok()) return int64_t{-1};
    EXPECT_EQ(given->scores.size(), wanted->scores.size());
    for (size_t i = 0; i < wanted->scores.size(); ++i) {
      EXPECT_EQ(given->scores[i].logprob, wanted->scores[i].logprob);
    }
    if (!wanted->tokens.empty()) {
      EXPECT_EQ(given->tokens[0].logprob, wanted->tokens[0].logprob);
    }
    return tiny.queued().counts().replays - before;
  };
  EXPECT_EQ(run({{29}}), 0);
  EXPECT_EQ(run({{29}}), 1);  // of the model alone
  EXPECT_EQ(run(scored), 0);
  EXPECT_EQ(run({}), 1);
  EXPECT_EQ(tiny.executor->Totals().eager_samplings, decltype(RunnerTotals::eager_samplings){});
}

TEST(GraphStep, ASinkHearsOfEveryLayerOfAChunk) {
  TinyExecutor tiny("llama", {.device = "chunks"});
  CountingSink sink;
  batch::KvSinkChecker checker(tiny.store->layer_count(), &sink);
  for (const uint64_t step : {1, 2, 3}) {
    PlanBuilder plan(step, 1);
    plan.Start(0, {}, {1, 5, 6}).Entry(0, 0, {1, 5, 6}, {{2}});
    ASSERT_TRUE(tiny.Run(plan.plan(), nullptr, &checker).ok());
  }
  EXPECT_EQ(sink.forwards, 3);
  EXPECT_EQ(tiny.queued().counts().replays, 0);
}

TEST(GraphStep, TheNoteSaysWhichBucketsOrWhyNone) {
  const auto note = [](const char* device, GraphSupport level = GraphSupport::kFull) {
    return TinyExecutor("llama", {.device = device, .graphs = level}).executor->Info().graphs_note;
  };
  EXPECT_THAT(note("pinned"), AllOf(HasSubstr("1 2 4 8 sequences"), Not(HasSubstr("pieces"))));
  EXPECT_THAT(note("chunks"), HasSubstr("and of chunks in 16 32 64 128 tokens"));
  EXPECT_THAT(note("pinned", GraphSupport::kNone), HasSubstr("no graphs: --graphs none"));
  EXPECT_THAT(note("nographs"), HasSubstr("no graphs: cuda:3 cannot be captured"));
  EXPECT_THAT(note("checked"), HasSubstr("no graphs: --check-each-op"));
  EXPECT_THAT(note("pinned", GraphSupport::kPiecewise),
              HasSubstr("in pieces between which there run all kinds of attention, by --graphs"));
  EXPECT_THAT(note("noattention"), HasSubstr("all kinds of attention, which cuda:3 does not"));
  EXPECT_THAT(note("nosampling"), AllOf(HasSubstr("in pieces between which there run "),
                                        HasSubstr("_sample, which cannot be captured")));
  TinyExecutor tiny("llama", {.device = "pinned"});
  std::vector<ops::BindRecord> bindings(2, {"attention", "", "any_f16_attention", {}});
  for (ops::BindRecord& binding : bindings) binding.graphs = GraphSupport::kPiecewise;
  const auto executor = Executor::Make(
      *tiny.device, *tiny.model, *tiny.store,
      {.max_num_seqs = 2, .graphs = GraphSupport::kPiecewise, .bindings = &bindings});
  EXPECT_THAT((*executor)->Info().graphs_note,
              ::testing::EndsWith("by --graphs piecewise and any_f16_attention, which cannot be "
                                  "captured"));
  EXPECT_EQ(bindings[2].op, "sample");  // --explain-kernels shows it too
}

}  // namespace
}  // namespace sluice::exec
