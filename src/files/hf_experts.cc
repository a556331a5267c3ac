#include "files/hf_experts.h"

#include <algorithm>

namespace sluice::files {
namespace {

constexpr IntRange kSparseStepRange{1, 1 << 20};
constexpr IntRange kExpertGroupsRange{1, kExpertsRange.max};
constexpr int kDenseLayers = 1;
constexpr int kQwenSharedWidth = 512;

Result<std::vector<bool>> SparseLayers(const JsonFields& fields, int layers) {
  int step = 1;
  SLUICE_RETURN_IF_ERROR(fields.Int("decoder_sparse_step", kSparseStepRange, &step));
  std::vector<int> dense;
  SLUICE_RETURN_IF_ERROR(fields.Ids("mlp_only_layers", {0, kLayersRange.max}, &dense));
  std::vector<bool> sparse(static_cast<size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) {
    sparse[static_cast<size_t>(layer)] = (layer + 1) % step == 0;
  }
  for (const int layer : dense) {
    if (layer < layers) sparse[static_cast<size_t>(layer)] = false;
  }
  return sparse;
}

// Which layers have experts.
Result<std::vector<bool>> LayersWithExperts(const JsonFields& fields, ExpertLayers rule,
                                            int layers) {
  if (rule == ExpertLayers::kSparse) return SparseLayers(fields, layers);
  int dense = 0;
  if (rule == ExpertLayers::kBehindDense) {
    dense = kDenseLayers;
    SLUICE_RETURN_IF_ERROR(fields.Int("first_k_dense_replace", {0, kLayersRange.max}, &dense));
  }
  std::vector<bool> sparse(static_cast<size_t>(layers), true);
  std::fill_n(sparse.begin(), std::min(dense, layers), false);
  return sparse;
}

// The expert that every token takes.
Status ReadShared(const JsonFields& fields, const HfExperts& hf, ExpertsConfig* experts) {
  if (hf.shared.empty()) return OkStatus();
  if (hf.layers == ExpertLayers::kBehindDense) {
    // Several of them are one, as wide as all.
    int count = 1;
    SLUICE_RETURN_IF_ERROR(fields.Int("n_shared_experts", kExpertsPerTokenRange, &count));
    experts->shared_width = count * experts->width;
    return OkStatus();
  }
  experts->shared_gate = !hf.shared_gate.empty();
  experts->shared_width = experts->shared_gate ? kQwenSharedWidth : 0;
  for (const char* key : {"shared_expert_intermediate_size", "shared_intermediate_size"}) {
    SLUICE_RETURN_IF_ERROR(fields.Int(key, {0, kIntermediateRange.max}, &experts->shared_width));
  }
  experts->shared_gate = experts->shared_gate && experts->shared_width > 0;
  return OkStatus();
}

Status ReadGroups(const JsonFields& fields, ExpertsConfig* experts) {
  SLUICE_RETURN_IF_ERROR(fields.Int("n_group", kExpertGroupsRange, &experts->groups));
  SLUICE_RETURN_IF_ERROR(fields.Int("topk_group", kExpertGroupsRange, &experts->groups_kept));
  return fields.Real("routed_scaling_factor", kFactorRange, &experts->scale);
}

}  // namespace

Status ReadHfExperts(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  const HfExperts& hf = info.hf_experts;
  if (hf.layers == ExpertLayers::kNone) return OkStatus();
  const HfDefaults& defaults = info.hf_defaults;
  ExpertsConfig experts = {.count = defaults.experts,
                           .per_token = defaults.experts_per_token,
                           .width = config->intermediate_size,
                           .score = hf.score,
                           .bias = !hf.bias.empty(),
                           .renormalize = hf.renormalize};
  // transformers 5 may write either name.
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    SLUICE_RETURN_IF_ERROR(fields.Int(key, kExpertsRange, &experts.count));
  }
  SLUICE_RETURN_IF_ERROR(
      fields.Int("num_experts_per_tok", kExpertsPerTokenRange, &experts.per_token));
  if (defaults.expert_width > 0) experts.width = defaults.expert_width;
  SLUICE_RETURN_IF_ERROR(fields.Int(hf.width_key, kIntermediateRange, &experts.width));
  SLUICE_RETURN_IF_ERROR(fields.Bool("norm_topk_prob", &experts.renormalize));
  SLUICE_RETURN_IF_ERROR(ReadShared(fields, hf, &experts));
  SLUICE_RETURN_IF_ERROR(ReadGroups(fields, &experts));
  if (fields.Has("clip_qkv")) {
    return BadModel("\"clip_qkv\" is given; models that clip Q, K and V are not supported");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<bool> sparse,
                          LayersWithExperts(fields, hf.layers, config->num_layers));
  if (experts.count == 0) return OkStatus();
  for (size_t i = 0; i < sparse.size(); ++i) {
    config->layers[i].experts = sparse[i];
    if (sparse[i]) config->experts = experts;
  }
  return OkStatus();
}

}  // namespace sluice::files
