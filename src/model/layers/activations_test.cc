#include "model/layers/activations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/test_model_configs.h"

namespace sluice::model::layers {
namespace {

using files::Architecture;
using files::ModelConfig;
using testing::SmallConfig;
using testing::SmallLfm2;
using testing::SmallMamba2;
using testing::SmallQwen3Next;

bool Overlap(const ops::Tensor& a, const ops::Tensor& b) {
  const auto end = [](const ops::Tensor& t) {
    return t.data + RowBytes(t.dtype, static_cast<size_t>(t.size()));
  };
  return a.data < end(b) && b.data < end(a);
}

class ActivationsOf : public ::testing::TestWithParam<DType> {
 protected:
  // Of five tokens, all with logits, in a workspace that has room for no more.
  Activations OfFive(const ModelConfig& config) {
    ModelOptions options;
    options.activation = GetParam();
    options.max_tokens = options.max_logits_rows = 5;
    memory_.resize(Activations::Bytes(config, options));
    return Activations::Slice({memory_.data(), memory_.size(), device::MemoryKind::kHost, {}},
                              config, options, 5, 5);
  }
  const std::byte* End() const { return memory_.data() + memory_.size(); }

  std::vector<std::byte> memory_;
};

void ExpectApart(const std::vector<const ops::Tensor*>& group) {
  for (size_t i = 0; i < group.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(Overlap(*group[i], *group[j])) << i << " " << j;
  }
}

TEST_P(ActivationsOf, LiveRegionsOfGatesAndStatesLieInTheWorkspaceAndApart) {
  const ModelConfig config = SmallQwen3Next();
  const Activations a = OfFive(config);
  for (const ops::Tensor* t : {&a.qkv_gate, &a.attended, &a.linear_in, &a.convolved, &a.recalled}) {
    EXPECT_LE(t->data + RowBytes(t->dtype, static_cast<size_t>(t->size())), End());
  }
  ExpectApart({&a.hidden, &a.normed, &a.qkv_gate, &a.q, &a.attended});
  ExpectApart({&a.hidden, &a.normed, &a.linear_in, &a.convolved, &a.recalled});
  EXPECT_EQ(a.qkv_gate.dims[1], 4 * 16 + 2 * 2 * 16 + 4 * 16);
  EXPECT_EQ(a.attention_gate.dims[1], 4 * 16);
  EXPECT_EQ(a.attention_gate.strides[0], a.qkv_gate.dims[1]);
  EXPECT_EQ(a.linear_in.dims[1], 46 + 30 + 12);
  EXPECT_EQ(a.linear_ba.dims[1], 12);
  EXPECT_EQ(a.linear_ba.data, a.linear_in.data + 76 * Info(GetParam()).bytes);
}

TEST_P(ActivationsOf, OfMambaTheGateLiesFirstAndStepSizesLast) {
  const ModelConfig config = SmallMamba2();
  const Activations a = OfFive(config);
  EXPECT_LE(a.recalled.data + RowBytes(GetParam(), static_cast<size_t>(a.recalled.size())), End());
  ExpectApart({&a.hidden, &a.normed, &a.branch, &a.linear_in, &a.convolved, &a.recalled});
  EXPECT_EQ(a.linear_in.dims[1], 30 + 46 + 6);
  EXPECT_EQ(a.linear_gate.data, a.linear_in.data);
  EXPECT_EQ(a.linear_qkv.data, a.linear_in.data + 30 * Info(GetParam()).bytes);
  EXPECT_EQ(a.linear_ba.data, a.linear_in.data + 76 * Info(GetParam()).bytes);
  EXPECT_EQ(a.linear_ba.dims[1], 6);
}

TEST_P(ActivationsOf, GatesAndWhatIsConvolvedBetweenThemLieApart) {
  const ModelConfig config = SmallLfm2();
  const Activations a = OfFive(config);
  EXPECT_LE(a.convolved.data + RowBytes(GetParam(), static_cast<size_t>(a.convolved.size())),
            End());
  ExpectApart({&a.hidden, &a.normed, &a.branch, &a.linear_in, &a.convolved});
  EXPECT_EQ(a.linear_in.dims[1], 3 * 64);
  EXPECT_EQ(a.convolved.dims[1], 64);
}

TEST_P(ActivationsOf, LiveRegionsLieInTheWorkspaceAndApart) {
  ModelConfig config = SmallConfig(Architecture::kLlama);
  ModelOptions options;
  options.activation = GetParam();
  options.max_tokens = 5;
  options.max_logits_rows = 9;  // more rows than tokens
  std::vector<std::byte> memory(Activations::Bytes(config, options));
  const device::View view{memory.data(), memory.size(), device::MemoryKind::kHost, {}};
  const auto a = Activations::Slice(view, config, options, 5, 9);
  for (const ops::Tensor* t : {&a.hidden, &a.normed, &a.branch, &a.qkv, &a.q, &a.attended,
                               &a.gate_up, &a.gated, &a.last, &a.last_normed}) {
    EXPECT_GE(t->data, memory.data());
    EXPECT_LE(t->data + RowBytes(t->dtype, static_cast<size_t>(t->size())),
              memory.data() + memory.size());
  }
  // What is read and written by one op, or survives a block.
  const std::vector<std::vector<const ops::Tensor*>> apart = {
      {&a.hidden, &a.normed, &a.branch, &a.qkv, &a.q},
      {&a.hidden, &a.normed, &a.branch, &a.attended, &a.q},
      {&a.hidden, &a.normed, &a.branch, &a.gate_up, &a.gated},
      {&a.hidden, &a.normed, &a.last, &a.last_normed}};
  for (const auto& group : apart) ExpectApart(group);
  EXPECT_EQ(a.hidden.dtype, ops::ResidualDType(GetParam()));
  EXPECT_EQ(a.last.dtype, a.hidden.dtype);
  EXPECT_EQ(a.normed.dtype, GetParam());
}

TEST_P(ActivationsOf, LiveRegionsOfExpertsLieInTheWorkspaceAndApart) {
  ModelConfig config = SmallConfig(Architecture::kQwen3Moe);
  config.layers[3].experts = true;
  config.experts = {.count = 9, .per_token = 3, .width = 40};
  ModelOptions options;
  options.activation = GetParam();
  options.max_tokens = 7;
  options.max_logits_rows = 1;
  std::vector<std::byte> memory(Activations::Bytes(config, options));
  const device::View view{memory.data(), memory.size(), device::MemoryKind::kHost, {}};
  const auto a = Activations::Slice(view, config, options, 5, 0);
  const std::vector<const ops::Tensor*> routed = {
      &a.hidden,         &a.normed,        &a.router_logits, &a.expert_ids,  &a.expert_places,
      &a.expert_weights, &a.expert_starts, &a.expert_tokens, &a.expert_gated};
  for (const ops::Tensor* inner : {&a.expert_gate_up, &a.expert_out}) {
    std::vector<const ops::Tensor*> live = routed;
    live.push_back(inner);
    ExpectApart(live);
    for (const ops::Tensor* t : live) {
      EXPECT_LE(t->data + RowBytes(t->dtype, static_cast<size_t>(t->size())),
                memory.data() + memory.size());
    }
  }
  EXPECT_EQ(a.expert_tokens.size(), 15);
  EXPECT_EQ(a.expert_starts.size(), 10);
  EXPECT_EQ(a.expert_out.dtype, DType::kF32);
  EXPECT_EQ(a.expert_gated.dtype, GetParam());
  // The expert that every token takes, wider than the dense feed-forward part.
  config.experts.shared_width = config.intermediate_size + 24;
  config.experts.shared_gate = true;
  std::vector<std::byte> more(Activations::Bytes(config, options));
  const auto shared = Activations::Slice({more.data(), more.size(), device::MemoryKind::kHost, {}},
                                         config, options, 5, 0);
  ExpectApart({&shared.hidden, &shared.normed, &shared.branch, &shared.gate_up, &shared.gated,
               &shared.shared_gate});
  EXPECT_EQ(shared.gated.dims[1], config.intermediate_size + 24);
  EXPECT_EQ(shared.shared_gate.dtype, DType::kF32);
  // The memory plan counts them.
  ModelConfig dense = config;
  dense.experts = {};
  EXPECT_GT(Activations::Bytes(config, options), Activations::Bytes(dense, options));
}

TEST_P(ActivationsOf, StreamsLieApartFromWhatLayersWorkOn) {
  ModelConfig config = SmallConfig(Architecture::kGemma3n);
  config.layer_inputs = {.width = 7, .rows = 40};
  config.altup = {.streams = 3, .laurel_rank = 200};
  const Activations a = OfFive(config);
  ExpectApart({&a.hidden, &a.streams, &a.routes, &a.layer_inputs, &a.normed, &a.branch, &a.gate_up,
               &a.gated});
  EXPECT_EQ(a.streams.dims[1], 3 * 64);
  EXPECT_EQ(a.streams.dtype, ops::ResidualDType(GetParam()));
  EXPECT_EQ(a.routes.dims[1], 3);
  EXPECT_EQ(a.gated.dims[1], 200);
}

TEST_P(ActivationsOf, WhatIsReusedLiesApartFromFeedForwardParts) {
  ModelConfig config = SmallConfig(Architecture::kGlmMoeDsa);
  config.num_kv_heads = 1;
  config.latent = {.kv_rank = 20, .q_rank = 8, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
  config.latent.indexer = {.heads = 2, .head_dim = 12, .top_k = 3};
  config.layers[1].reuses_positions = true;
  const Activations a = OfFive(config);
  ExpectApart({&a.hidden, &a.normed, &a.branch, &a.gate_up, &a.gated, &a.index_positions});
  ExpectApart({&a.qkv, &a.q, &a.index_qkv, &a.index_scores, &a.index_positions});
  EXPECT_EQ(a.index_positions.dims[1], 3);
}

INSTANTIATE_TEST_SUITE_P(Types, ActivationsOf,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& one) { return std::string(Name(one.param)); });

}  // namespace
}  // namespace sluice::model::layers
