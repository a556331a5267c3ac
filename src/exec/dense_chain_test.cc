// What stands between two attentions, by one op for steps of few tokens: which models' layers are
// wired so, and that no bit of an answer tells.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/executor_fixture.h"
#include "ops/dense_chain.h"

namespace sluice::exec {
namespace {

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  friend bool operator==(const Answer&, const Answer&) = default;
};

// A prompt, then tokens one by one.
Answer Generate(TinyExecutor* tiny) {
  constexpr int kSteps = 6;
  const std::vector<int32_t> prompt = {5, 9, 1, 77, 30, 2, 64, 100, 8};
  const auto length = static_cast<int>(prompt.size());
  batch::SamplingParams params;
  params.temperature = 0.0f;
  params.top_logprobs = 1;
  Answer answer;
  for (int step = 0; step < kSteps; ++step) {
    PlanBuilder plan(static_cast<uint64_t>(step) + 1, tiny->model->groups().size());
    if (step == 0) {
      plan.Start(0, params, prompt).Entry(0, 0, prompt, {{length - 1}});
    } else {
      plan.Entry(0, length + step - 1, {batch::kLastDrawn}, {{0}});
    }
    const auto result = tiny->Run(std::move(plan.plan()));
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (!result.ok()) break;
    for (const auto& token : result->tokens) {
      answer.ids.push_back(token.id);
      answer.logprobs.push_back(token.logprob);
    }
  }
  return answer;
}

int64_t Chains(const TinyExecutor& tiny, std::string_view what) {
  return std::count_if(tiny.bindings.begin(), tiny.bindings.end(), [&](const ops::BindRecord& r) {
    return r.op == ops::DenseChain::kName && r.shape.find(what) != std::string::npos;
  });
}

class DenseChains : public ::testing::TestWithParam<const char*> {};

TEST_P(DenseChains, StandForTheirPartsAndChangeNoBit) {
  TinyExecutor parts(GetParam(), {.device = "reference", .graphs = device::GraphSupport::kNone});
  TinyExecutor chains(GetParam(), {.device = "chains", .graphs = device::GraphSupport::kNone});
  EXPECT_EQ(Chains(parts, ""), 0);
  EXPECT_GT(Chains(chains, ", then "), 0);
  const Answer expected = Generate(&parts);
  EXPECT_EQ(expected.ids.size(), 6u);
  EXPECT_EQ(Generate(&chains), expected);
  // The prompt goes through the parts, each of the five tokens behind it through all layers'
  // chains.
  const int64_t layers = chains.model->config().num_layers;
  EXPECT_EQ(chains.queued().counts().eager["dense_chain"], 5 * layers);
  EXPECT_EQ(parts.queued().counts().eager["dense_chain"], 0);
}

INSTANTIATE_TEST_SUITE_P(Models, DenseChains, ::testing::Values("llama", "qwen3", "mistral"),
                         [](const auto& test) { return std::string(test.param); });

class WithoutChains : public ::testing::TestWithParam<const char*> {};

// Norms behind blocks, biases, blocks in parallel, experts, scaled residuals of another kind: what
// a chain does not have keeps a layer from it.
TEST_P(WithoutChains, KeepTheirParts) {
  TinyExecutor tiny(GetParam(), {.device = "chains"});
  EXPECT_EQ(Chains(tiny, ""), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, WithoutChains,
                         ::testing::Values("gemma2", "llama_bias", "cohere", "mixtral", "gpt2",
                                           "deepseek_v3", "olmo2", "qwen3_fp8_block"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace sluice::exec
