// Drafts that are trees, on models and devices of every kind: what is drawn is what is drawn
// without drafts, to the bit, whichever branch was right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "base/source_dir_fixture.h"
#include "batch/draft_tree.h"
#include "exec/executor_fixture.h"
#include "ops/host_array.h"

namespace sluice::exec {
namespace {

using batch::RowPurpose;
using batch::StepResult;
using ::testing::HasSubstr;

const std::vector<int32_t> kTreePrompt = {1, 75, 65, 67, 20, 98, 13, 26, 20, 23, 18, 53, 85};
constexpr int kTokens = 40;

struct TreeCase {
  std::string model, device;
  DType kv = DType::kF16;
};

class DraftTrees : public ::testing::TestWithParam<TreeCase> {
 protected:
  void SetUp() override {
    if (GetParam().device == "xpu") {
      const auto resolved = device::ResolveDevice("xpu", device::LinkedBackends());
      if (!resolved.ok()) GTEST_SKIP() << "no device: " << resolved.status().message();
    }
    tiny_.emplace(
        GetParam().model,
        TinyOptions{.device = GetParam().device, .kv_dtype = GetParam().kv, .draft_trees = true});
  }
  PlanBuilder NextPlan() { return PlanBuilder(++step_, tiny_->model->groups().size()); }
  StepResult Run(PlanBuilder& builder) {
    auto result = tiny_->Run(std::move(builder.plan()));
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? std::move(result).value() : StepResult();
  }
  static void Take(const StepResult& result, std::vector<Drawn>* drawn) {
    for (const batch::ResultToken& token : result.tokens)
      drawn->push_back({token.id, token.logprob});
  }
  void Prefill(int slot, const batch::SamplingParams& params, std::vector<Drawn>* drawn) {
    PlanBuilder plan = NextPlan();
    plan.Start(slot, params, kTreePrompt).Entry(slot, 0, kTreePrompt, {{12}});
    Take(Run(plan), drawn);
  }
  static int EndOf(const std::vector<Drawn>& drawn) {
    return static_cast<int>(kTreePrompt.size() + drawn.size()) - 1;
  }
  std::vector<Drawn> OneByOne(int slot, const batch::SamplingParams& params) {
    std::vector<Drawn> drawn;
    Prefill(slot, params, &drawn);
    while (drawn.size() < kTokens) {
      PlanBuilder plan = NextPlan();
      plan.Entry(slot, EndOf(drawn), {drawn.back().id}, {{0}});
      Take(Run(plan), &drawn);
    }
    return drawn;
  }
  // Any tree, most of whose drafts are right if those before them are; and what is computed once
  // more stands in front of it.
  void Verify(int slot, const std::vector<Drawn>& expected, int again, ops::TestNoise& noise,
              std::vector<Drawn>* drawn) {
    std::vector<int32_t> parents, tokens;
    batch::DraftDepths depths = {};
    const auto most = static_cast<size_t>(1 + noise.Below(limits::kDraftTokensMax - again));
    while (tokens.size() < most) {
      const auto count = static_cast<int64_t>(tokens.size());
      const auto parent = static_cast<int32_t>(noise.Below(3) > 0 ? count : noise.Below(count + 1));
      const size_t at = drawn->size() + static_cast<size_t>(depths[parent]);
      const int32_t right = at < expected.size() ? expected[at].id : 3;
      parents.push_back(parent);
      tokens.push_back(noise.Below(3) > 0
                           ? right
                           : (right + 1) % static_cast<int32_t>(tiny_->model->vocab_size()));
      depths[tokens.size()] = depths[parent] + 1;
    }
    std::vector<int32_t> query;
    for (int i = again; i >= 0; --i) query.push_back((drawn->end() - 1 - i)->id);
    query.insert(query.end(), tokens.begin(), tokens.end());
    std::vector<TestRow> rows;
    for (int i = 0; i <= static_cast<int>(tokens.size()); ++i) {
      const auto next = std::find(parents.begin(), parents.end(), i) - parents.begin();
      const bool follows = next < static_cast<int64_t>(parents.size());
      rows.push_back({again + i, RowPurpose::kVerify, follows ? tokens[next] : -1});
    }
    PlanBuilder plan = NextPlan();
    plan.Entry(slot, EndOf(*drawn) - again, query, rows).Tree(parents);
    const StepResult result = Run(plan);
    ASSERT_EQ(result.entries.size(), 1u);
    aside_ += again_ = result.entries[0].aside;
    Take(result, drawn);
  }
  void ExpectTheSame(const batch::SamplingParams& params) {
    const std::vector<Drawn> expected = OneByOne(0, params);
    ops::TestNoise noise(3);
    int steps = 0;
    for (int slot = 1; slot < kTestSlots; ++slot) {
      std::vector<Drawn> drawn;
      Prefill(slot, params, &drawn);
      again_ = 0;
      for (; drawn.size() < expected.size() && !HasFailure(); ++steps)
        Verify(slot, expected, again_, noise, &drawn);
      drawn.resize(expected.size());
      EXPECT_EQ(drawn, expected);
    }
    EXPECT_GT(aside_, 10) << "no branch aside was right: the test shows nothing";
    EXPECT_LT(steps, (kTestSlots - 1) * kTokens);
  }

  std::optional<TinyExecutor> tiny_;
  uint64_t step_ = 0;
  int again_ = 0, aside_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Models, DraftTrees,
    ::testing::Values(TreeCase{"llama", "cpu"}, TreeCase{"llama", "pinned"},
                      TreeCase{"llama", "xpu"}, TreeCase{"gemma2", "cpu"},
                      TreeCase{"gemma2", "xpu"}, TreeCase{"gemma4_e", "cpu"},
                      TreeCase{"gemma4_e", "xpu"}, TreeCase{"deepseek_v2", "cpu"},
                      TreeCase{"deepseek_v2", "xpu"}, TreeCase{"llama", "cpu", DType::kF8E4M3},
                      TreeCase{"gemma2", "cpu", DType::kI8}, TreeCase{"llama", "xpu", DType::kI8}),
    [](const auto& name) {
      const TreeCase& c = name.param;
      return c.model + "_" + c.device + "_" +
             (c.kv == DType::kF16  ? "f16"
              : c.kv == DType::kI8 ? "i8"
                                   : "f8");
    });

TEST_P(DraftTrees, GreedyAnswersAreThoseWithout) { ExpectTheSame(Greedy()); }

TEST_P(DraftTrees, SampledAnswersAreThoseWithout) {
  batch::SamplingParams params;
  params.seed = 5;
  params.temperature = 0.7f;
  params.top_p = 0.9f;
  params.top_logprobs = 1;
  ExpectTheSame(params);
}

// Each row's penalties see the drafts that lead to it, and no other.
TEST_P(DraftTrees, PenaltiesFollowTheBranch) {
  batch::SamplingParams params;
  params.seed = 7;
  params.temperature = 0.8f;
  params.frequency_penalty = 0.8f;
  params.presence_penalty = 0.4f;
  params.repetition_penalty = 1.2f;
  params.no_repeat_ngram = 3;
  params.logit_bias = {{20, 1.5f}, {31, 1.0f}};
  params.top_logprobs = 1;
  ExpectTheSame(params);
}

// States go on from one token, and what an indexer chooses is chosen of a chain.
TEST(TakesDraftTrees, NeitherStatesNorListedPositionsDo) {
  const auto takes = [](const std::string& name) {
    const auto files = files::OpenModel(SourceDir() + "/tests/golden/models/" + name).value();
    return model::TakesDraftTrees(files.config, *OpenTestDevice("cpu"), {});
  };
  for (const char* name : {"llama", "gemma4_e", "gemma3n", "deepseek_v2", "qwen3_moe"})
    EXPECT_TRUE(takes(name)) << name;
  for (const char* name : {"deepseek_v32", "glm_moe_dsa", "jamba", "falcon_mamba", "lfm2"})
    EXPECT_FALSE(takes(name)) << name;
}

// Nothing of it may be left open: what a tree draws is known when it has been collected.
TEST_P(DraftTrees, AWrongTreeIsRefused) {
  const auto refused = [&](auto change) {
    PlanBuilder plan = NextPlan();
    plan.Start(0, Greedy(), kTreePrompt)
        .Entry(0, 0, {1, 75, 65},
               {{0, RowPurpose::kVerify, 75}, {1, RowPurpose::kVerify}, {2, RowPurpose::kVerify}})
        .Tree({0, 0});
    change(plan.plan());
    return tiny_->Run(std::move(plan.plan())).status().message();
  };
  EXPECT_THAT(refused([](batch::BatchPlan& p) { p.parents[1] = 2; }), HasSubstr("has a tree"));
  EXPECT_THAT(refused([](batch::BatchPlan& p) { p.parents[0] = -1; }), HasSubstr("has a tree"));
  EXPECT_THAT(refused([](batch::BatchPlan& p) { p.parents.pop_back(); }), HasSubstr("has a tree"));
  EXPECT_THAT(refused([](batch::BatchPlan& p) { p.entries[0].tree = 1; }), HasSubstr("has a tree"));
  EXPECT_THAT(
      refused([](batch::BatchPlan& p) { p.entries[0].tree = std::numeric_limits<int32_t>::max(); }),
      HasSubstr("has a tree"));
  EXPECT_THAT(refused([](batch::BatchPlan& p) { p.entries[0].masked = true; }),
              HasSubstr("has a tree"));
  EXPECT_THAT(refused([](batch::BatchPlan& p) { p.logits_rows[2].token = 1; }),
              HasSubstr("has a tree"));
  EXPECT_THAT(
      refused([](batch::BatchPlan& p) { p.logits_rows[1].purpose = batch::RowPurpose::kSample; }),
      HasSubstr("has a tree"));
}

}  // namespace
}  // namespace sluice::exec
