// Plans that tell what changed of block tables, on an executor: tokens and log-probs are those of
// plans that tell them whole, nothing stale is read, and little is sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "exec/executor_fixture.h"

namespace sluice::exec {
namespace {

using batch::StepResult;
using ::testing::HasSubstr;

constexpr int kPromptTokens = 13;

std::vector<int32_t> ResidentPrompt(int seed) {
  std::vector<int32_t> prompt;
  for (int i = 0; i < kPromptTokens; ++i) prompt.push_back(3 + (seed * 37 + i * 11) % 120);
  return prompt;
}

// The parameter is a device of OpenTestDevice.
class ResidentTables : public ::testing::TestWithParam<std::string> {
 protected:
  PlanBuilder NextPlan() { return PlanBuilder(++step_, tiny_.model->groups().size()); }
  static int Blocks(int length) { return (length + kTestKernelBlock - 1) / kTestKernelBlock; }
  Drawn Run(PlanBuilder& plan) {
    const auto result = tiny_.Run(plan.plan());
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (!result.ok() || result->tokens.empty()) return {};
    return {result->tokens.back().id, result->tokens.back().logprob};
  }
  // The step that told the slot whole.
  uint64_t Prefill(int slot, int seed, std::vector<Drawn>* drawn, int blocks_of = -1) {
    PlanBuilder plan = NextPlan();
    plan.Start(slot, Greedy(1), ResidentPrompt(seed))
        .Entry(slot, 0, ResidentPrompt(seed), {{kPromptTokens - 1}}, blocks_of);
    drawn->assign(1, Run(plan));
    return step_;
  }
  PlanBuilder Decode(int slot, const std::vector<Drawn>& drawn, int blocks_of = -1) {
    PlanBuilder plan = NextPlan();
    plan.Entry(slot, kPromptTokens + static_cast<int>(drawn.size()) - 1, {drawn.back().id}, {{0}},
               blocks_of);
    return plan;
  }
  // Answers of `count` tokens; `whole`: each plan tells every block.
  std::vector<Drawn> Generate(int slot, int seed, int count, bool whole, int blocks_of = -1) {
    std::vector<Drawn> drawn;
    const uint64_t told_whole = Prefill(slot, seed, &drawn, blocks_of);
    while (static_cast<int>(drawn.size()) < count) {
      const int length = kPromptTokens + static_cast<int>(drawn.size());
      PlanBuilder plan = Decode(slot, drawn, blocks_of);
      if (!whole) plan.GoesOn(told_whole, Blocks(length - 1));
      drawn.push_back(Run(plan));
    }
    return drawn;
  }

  TinyExecutor tiny_{"llama", {.device = GetParam()}};
  uint64_t step_ = 0;
};

TEST_P(ResidentTables, WhatIsNewAloneGivesTheBitsOfWholeTables) {
  EXPECT_EQ(Generate(1, 1, 30, false), Generate(2, 1, 30, true));
}

TEST_P(ResidentTables, ASlotMayBeGivenToAnotherSequence) {
  const std::vector<Drawn> first = Generate(0, 1, 20, true), second = Generate(0, 2, 20, true);
  EXPECT_NE(first, second);
  EXPECT_EQ(Generate(3, 1, 20, false), first);
  EXPECT_EQ(Generate(3, 2, 20, false, 5), second);  // other blocks, too
  EXPECT_EQ(Generate(3, 1, 20, false), first);
}

// The copy of a block takes the place of one that is told already; then the old one is written.
TEST_P(ResidentTables, ABlockInTheMiddleMayBeReplaced) {
  const std::vector<Drawn> expected = Generate(0, 1, 6, true);
  std::vector<Drawn> drawn;
  const uint64_t told_whole = Prefill(1, 1, &drawn);
  PlanBuilder replacing = Decode(1, drawn);
  replacing.plan().copies.push_back(
      {0, PlanBuilder::CacheBlock(1, 1), PlanBuilder::CacheBlock(6, 1)});
  replacing.GoesOn(told_whole, 2);
  for (int i = 0; i < 2; ++i) {
    replacing.plan().groups[0].ids[static_cast<size_t>(i)] = PlanBuilder::KernelBlock(6, 2 + i);
  }
  drawn.push_back(Run(replacing));
  PlanBuilder other = NextPlan();
  other.Start(2, Greedy(1), ResidentPrompt(2))
      .Entry(2, 0, ResidentPrompt(2), {{kPromptTokens - 1}});
  for (int i = 2; i < 4; ++i) {
    other.plan().groups[0].ids[static_cast<size_t>(i)] = PlanBuilder::KernelBlock(1, i);
  }
  Run(other);
  while (drawn.size() < 3) {  // up to the end of the copied block
    PlanBuilder next = Decode(1, drawn);
    next.GoesOn(told_whole, Blocks(kPromptTokens + 1));
    drawn.push_back(Run(next));
  }
  EXPECT_EQ(drawn, std::vector<Drawn>(expected.begin(), expected.begin() + 3));
}

TEST_P(ResidentTables, WhatAFailedStepToldIsToldAgainWhole) {
  if (GetParam() == "cpu") GTEST_SKIP() << "its ops do not fail";
  const std::vector<Drawn> expected = Generate(0, 1, 8, true);
  std::vector<Drawn> drawn;
  uint64_t told_whole = Prefill(1, 1, &drawn);
  for (const std::string op : {"attention", "sample"}) {
    PlanBuilder failing = Decode(1, drawn);
    failing.GoesOn(told_whole, Blocks(kPromptTokens));
    tiny_.queued().FailOp(op);
    EXPECT_EQ(tiny_.Run(failing.plan()).status().code(), StatusCode::kDevice) << op;
    PlanBuilder stale = Decode(1, drawn);
    stale.GoesOn(told_whole, Blocks(kPromptTokens));
    const Status status = tiny_.Run(stale.plan()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("slot 1 holds none; tell them whole"));
    PlanBuilder again = Decode(1, drawn);
    EXPECT_EQ(Run(again), expected[1]) << op;
    told_whole = step_;
  }
}

TEST_P(ResidentTables, WhatADroppedStepToldIsToldAgainWhole) {
  std::vector<Drawn> drawn;
  const uint64_t told_whole = Prefill(1, 1, &drawn);
  PlanBuilder dropped = Decode(1, drawn);
  dropped.GoesOn(told_whole, Blocks(kPromptTokens));
  ASSERT_TRUE(tiny_.Launch(dropped.plan()).ok());
  PlanBuilder behind = NextPlan();
  behind.Start(2, Greedy(1), ResidentPrompt(2))
      .Entry(2, 0, ResidentPrompt(2), {{kPromptTokens - 1}});
  ASSERT_TRUE(tiny_.Launch(behind.plan()).ok());
  const uint64_t behind_step = step_;
  tiny_.steps.pop_front();
  StepResult result;
  EXPECT_FALSE(tiny_.Finish(&result).ok());
  PlanBuilder stale = Decode(1, drawn);
  stale.GoesOn(told_whole, Blocks(kPromptTokens));
  EXPECT_THAT(tiny_.Run(stale.plan()).status().message(), HasSubstr("tell them whole"));
  PlanBuilder other = NextPlan();
  other.Entry(2, kPromptTokens, {5}, {{0}}).GoesOn(behind_step, Blocks(kPromptTokens));
  EXPECT_THAT(tiny_.Run(other.plan()).status().message(), HasSubstr("tell them whole"));
  PlanBuilder again = Decode(1, drawn);
  EXPECT_EQ(Run(again), Generate(0, 1, 2, true)[1]);
}

// A refused plan changes nothing: the right one may follow it.
TEST_P(ResidentTables, ARefusedPlanLeavesTheTablesAsTheyWere) {
  const std::vector<Drawn> expected = Generate(0, 1, 2, true);
  std::vector<Drawn> drawn;
  const uint64_t told_whole = Prefill(1, 1, &drawn);
  PlanBuilder wrong = Decode(1, drawn);
  wrong.GoesOn(told_whole, Blocks(kPromptTokens) - 1);
  wrong.plan().groups[0].ids[0] = -1;
  EXPECT_EQ(tiny_.Run(wrong.plan()).status().code(), StatusCode::kInvalidArgument);
  PlanBuilder right = Decode(1, drawn);
  right.GoesOn(told_whole, Blocks(kPromptTokens));
  EXPECT_EQ(Run(right), expected[1]);
}

INSTANTIATE_TEST_SUITE_P(Devices, ResidentTables, ::testing::Values("cpu", "pinned", "plain"),
                         [](const auto& device) { return device.param; });

// Logits stay what they were: what is sent for a step does not depend on the model.
class SilentModel : public model::Model {
 public:
  explicit SilentModel(model::ModelParts parts) : Model(std::move(parts)) {}
  size_t workspace_bytes() const override { return 256; }
  Status Forward(model::ForwardContext&, const model::DeviceBatch&,
                 const model::Outputs&) const override {
    return OkStatus();
  }
};

constexpr int kManySequences = 256, kLongContext = 128 << 10, kLongBlock = 16;

// All sequences of 128k tokens share a few blocks, which the executor does not mind.
class LongContexts : public ::testing::TestWithParam<bool> {
 protected:
  LongContexts() {
    model::ModelParts parts;
    parts.device = &device_;
    parts.config.vocab_size = 64;
    parts.config.num_layers = parts.config.num_heads = parts.config.num_kv_heads = 1;
    parts.config.head_dim = parts.config.hidden_size = 32;
    parts.config.layers.resize(1);
    parts.options.max_tokens = parts.options.max_logits_rows = kManySequences;
    parts.options.max_model_len = kLongContext;
    parts.options.block_tokens = parts.options.kernel_block_tokens = kLongBlock;
    config_ = parts.config;
    options_ = parts.options;
    model_ = std::make_unique<SilentModel>(std::move(parts));
    batch::KvGroup group = model_->groups().front();
    group.num_blocks = 16;
    store_ = std::move(kvstore::KvStore::Make(device_, {group}).value());
    memory_before_ = Used();
    executor_ = std::move(Executor::Make(device_, *model_, *store_,
                                         {.max_num_seqs = kManySequences,
                                          .graphs = GetParam() ? device::GraphSupport::kFull
                                                               : device::GraphSupport::kNone,
                                          .bindings = &bindings_})
                              .value());
  }
  size_t Used() const {
    const device::MemoryInfo memory = device_.Memory().value();
    return memory.total_bytes - memory.free_bytes;
  }
  // A token of each sequence; from `told` on, or whole.
  batch::BatchPlan Plan(uint64_t step, int position, bool whole) const {
    batch::BatchPlan plan;
    plan.step = step;
    batch::GroupTable& table = plan.groups.emplace_back();
    table.begin = {0};
    for (int32_t s = 0; s < kManySequences; ++s) {
      plan.entries.push_back({.sequence = static_cast<uint64_t>(s) + 1,
                              .slot = s,
                              .told_whole = whole ? step : 1,
                              .first_position = position,
                              .query_tokens = 1,
                              .token_begin = s,
                              .logits_begin = s,
                              .logits_count = 1});
      plan.tokens.push_back(1);
      plan.logits_rows.push_back({s});
      const int32_t end = position / kLongBlock + 1;
      table.first.push_back(whole ? 0 : (position - 1) / kLongBlock + 1);
      for (int32_t i = table.first.back(); i < end; ++i) table.ids.push_back(i % 16);
      table.begin.push_back(static_cast<int32_t>(table.ids.size()));
      if (whole) plan.starts.push_back({.slot = s, .prompt_tokens = 1, .history = {1}});
    }
    return plan;
  }
  int64_t BytesOf(batch::BatchPlan plan) {
    const int64_t before = device_.counts().bytes_to_device;
    auto step = executor_->Launch(&plan, nullptr);
    EXPECT_TRUE(step.ok()) << step.status().message();
    StepResult result;
    if (step.ok()) {
      const Status status = step->Finish(&result);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return device_.counts().bytes_to_device - before;
  }

  ops::QueuedDevice device_;
  files::ModelConfig config_;
  model::ModelOptions options_;
  std::vector<ops::BindRecord> bindings_;
  std::unique_ptr<SilentModel> model_;
  std::unique_ptr<kvstore::KvStore> store_;
  size_t memory_before_ = 0;
  std::unique_ptr<Executor> executor_;
};

TEST_P(LongContexts, ADecodeStepOf256SequencesSendsLessThan64KiB) {
  const int first = kLongContext - 40;
  // Many at once are told to a step that runs without its graph.
  EXPECT_GT(BytesOf(Plan(1, first, true)), int64_t{8} << 20);
  EXPECT_EQ(executor_->Totals().eager_tables, GetParam() ? 1u : 0u);
  int64_t most = 0;
  for (int i = 1; i < 40; ++i) {
    most = std::max(most, BytesOf(Plan(static_cast<uint64_t>(i) + 1, first + i, false)));
  }
  EXPECT_LT(most, 64 << 10);
  EXPECT_GT(most, 256 * 4);
  RecordProperty("bytes", StrCat(most));
  EXPECT_EQ(executor_->Totals().eager_tables, GetParam() ? 1u : 0u);
  EXPECT_EQ(executor_->captured().size(), GetParam() ? 1u : 0u);
}

// Nothing grows in a step, and the memory plan counts it all.
TEST_P(LongContexts, WhatStaysOnTheDeviceIsTakenAtTheStartAndPlanned) {
  const size_t taken = Used() - memory_before_;
  EXPECT_GT(taken, size_t{3} * kManySequences * (kLongContext / kLongBlock) * sizeof(int32_t));
  model::ModelOptions options = options_;
  const size_t planned = Executor::DeviceBytes(config_, options, kManySequences);
  EXPECT_LE(taken, planned + model_->workspace_bytes() + (64 << 10));
  BytesOf(Plan(1, kLongContext - 40, true));
  BytesOf(Plan(2, kLongContext - 39, false));
  EXPECT_EQ(Used() - memory_before_, taken);
}

INSTANTIATE_TEST_SUITE_P(Graphs, LongContexts, ::testing::Bool(),
                         [](const auto& graphs) { return graphs.param ? "yes" : "no"; });

}  // namespace
}  // namespace sluice::exec
