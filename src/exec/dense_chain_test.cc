// What stands between two attentions, by one op for steps of few tokens: which models' layers are
// wired so, and that no bit of an answer tells.
#include <gtest/gtest.h>

#include "exec/generate_fixture.h"
#include "ops/dense_chain.h"
#include "ops/experts_chain.h"
#include "ops/normed_rope_kv.h"

namespace sluice::exec {
namespace {

int64_t Chains(const TinyExecutor& tiny, std::string_view what) {
  return Count(tiny, ops::DenseChain::kName, what);
}

class DenseChains : public ::testing::TestWithParam<const char*> {};

TEST_P(DenseChains, StandForTheirPartsAndChangeNoBit) {
  TinyExecutor parts(GetParam(), {.device = "reference", .graphs = device::GraphSupport::kNone});
  TinyExecutor chains(GetParam(), {.device = "chains", .graphs = device::GraphSupport::kNone});
  EXPECT_EQ(Chains(parts, ""), 0);
  EXPECT_GT(Chains(chains, ", then "), 0);
  const std::vector<Drawn> expected = Generate(&parts);
  EXPECT_EQ(expected.size(), 6u);
  EXPECT_EQ(Generate(&chains), expected);
  // The prompt goes through the parts, each of the five tokens behind it through all layers'
  // chains.
  const int64_t layers = chains.model->config().num_layers;
  EXPECT_EQ(chains.queued().counts().eager["dense_chain"], 5 * layers);
  EXPECT_EQ(parts.queued().counts().eager["dense_chain"], 0);
}

INSTANTIATE_TEST_SUITE_P(Models, DenseChains, ::testing::Values("llama", "qwen3", "mistral"),
                         [](const auto& test) { return std::string(test.param); });

// Norms of heads with RoPE and the KV write, for steps of any number of tokens.
TEST(NormedRopeKv, StandsForItsPartsAndChangesNoBit) {
  for (const char* const model : {"qwen3", "qwen3_moe"}) {
    TinyExecutor parts(model, {.device = "reference", .graphs = device::GraphSupport::kNone});
    TinyExecutor one(model, {.device = "chains", .graphs = device::GraphSupport::kNone});
    EXPECT_EQ(Count(parts, ops::NormedRopeKv::kName, ""), 0);
    EXPECT_GT(Count(one, ops::NormedRopeKv::kName, ""), 0);
    EXPECT_EQ(Generate(&one), Generate(&parts)) << model;
    EXPECT_EQ(one.queued().counts().eager["qk_norm"], 0);
    EXPECT_GT(one.queued().counts().eager["normed_rope_kv"], 0);
  }
}

class ExpertsChains : public ::testing::TestWithParam<const char*> {};

TEST_P(ExpertsChains, StandForTheirPartsAndChangeNoBit) {
  TinyExecutor parts(GetParam(), {.device = "reference", .graphs = device::GraphSupport::kNone});
  TinyExecutor chains(GetParam(), {.device = "chains", .graphs = device::GraphSupport::kNone});
  EXPECT_EQ(Count(parts, ops::ExpertsChain::kName, ""), 0);
  EXPECT_GT(Count(chains, ops::ExpertsChain::kName, ""), 0);
  const std::vector<Drawn> expected = Generate(&parts);
  EXPECT_EQ(expected.size(), 6u);
  EXPECT_EQ(Generate(&chains), expected);
  const int64_t layers = chains.model->config().num_layers;
  EXPECT_EQ(chains.queued().counts().eager["experts_chain"], 5 * layers);
  EXPECT_EQ(parts.queued().counts().eager["experts_chain"], 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ExpertsChains, ::testing::Values("mixtral", "qwen3_moe", "olmoe"),
                         [](const auto& test) { return std::string(test.param); });

class WithoutChains : public ::testing::TestWithParam<const char*> {};

// Norms behind blocks, biases, blocks in parallel, experts, scaled residuals of another kind: what
// a chain does not have keeps a layer from it.
TEST_P(WithoutChains, KeepTheirParts) {
  TinyExecutor tiny(GetParam(), {.device = "chains"});
  EXPECT_EQ(Chains(tiny, ""), 0);
  EXPECT_EQ(Count(tiny, ops::ExpertsChain::kName, ""), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, WithoutChains,
                         ::testing::Values("gemma2", "llama_bias", "cohere", "gpt2", "gpt_oss",
                                           "deepseek_v3", "olmo2", "qwen3_fp8_block", "llama4",
                                           "gemma4_moe", "qwen2_moe"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace sluice::exec
