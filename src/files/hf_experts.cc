#include "files/hf_experts.h"

#include <algorithm>
#include <string>

#include "base/str_cat.h"

namespace sluice::files {
namespace {

constexpr IntRange kSparseStepRange{1, 1 << 20};
constexpr IntRange kExpertGroupsRange{1, kExpertsRange.max};
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

Result<std::vector<bool>> InterleavedLayers(const JsonFields& fields, int layers) {
  int step = 1;
  SLUICE_RETURN_IF_ERROR(fields.Int("interleave_moe_layer_step", kSparseStepRange, &step));
  std::vector<int> named;
  SLUICE_RETURN_IF_ERROR(fields.Ids("moe_layers", {0, kLayersRange.max}, &named));
  std::vector<bool> sparse(static_cast<size_t>(layers));
  for (int layer = 0; layer < layers && !fields.Has("moe_layers"); ++layer) {
    sparse[static_cast<size_t>(layer)] = (layer + 1) % step == 0;
  }
  for (const int layer : named) {
    if (layer < layers) sparse[static_cast<size_t>(layer)] = true;
  }
  return sparse;
}

Result<std::vector<bool>> LayersBetween(const JsonFields& fields, int layers) {
  int first = 1, last = -1, step = 1;
  SLUICE_RETURN_IF_ERROR(fields.Int("moe_layer_interval", kSparseStepRange, &step));
  SLUICE_RETURN_IF_ERROR(fields.Int("moe_layer_start_index", {0, kLayersRange.max}, &first));
  SLUICE_RETURN_IF_ERROR(fields.Int("moe_layer_end_index", {-1, kLayersRange.max}, &last));
  if (last < 0) last = layers - 1;
  std::vector<bool> sparse(static_cast<size_t>(layers));
  for (int layer = first; layer <= std::min(last, layers - 1); ++layer) {
    sparse[static_cast<size_t>(layer)] = (layer + 1) % step == 0;
  }
  return sparse;
}

// How many experts a token takes; some files say it of each layer.
Status ReadPerToken(const JsonFields& fields, int* per_token) {
  for (const char* key : {"num_experts_per_tok", "moe_topk", "moe_k"}) {
    std::vector<int> numbers;
    SLUICE_RETURN_IF_ERROR(fields.Ids(key, kExpertsPerTokenRange, &numbers));
    for (const int number : numbers) {
      if (number != numbers.front()) {
        return BadModel(StrCat("\"", key, "\" differs between layers, which is not supported"));
      }
      *per_token = number;
    }
  }
  return OkStatus();
}

// Some files name the kind of each layer's feed-forward part instead.
Status ReadKinds(const JsonFields& fields, std::vector<bool>* sparse) {
  const Json* kinds = fields.Find("mlp_layer_types");
  if (kinds == nullptr) return OkStatus();
  if (!kinds->is_array() || kinds->size() != sparse->size()) {
    return BadModel(StrCat("\"mlp_layer_types\" is not a list of ", sparse->size(), " names"));
  }
  for (size_t i = 0; i < sparse->size(); ++i) {
    if ((*kinds)[i] != "dense" && (*kinds)[i] != "sparse") {
      return BadModel(
          StrCat("\"mlp_layer_types\" gives layer ", i, " another kind than dense and sparse"));
    }
    (*sparse)[i] = (*kinds)[i] == "sparse";
  }
  return OkStatus();
}

// Which layers have experts.
Result<std::vector<bool>> LayersWithExperts(const JsonFields& fields, const HfExperts& hf,
                                            const ModelConfig& config) {
  const int layers = config.num_layers;
  if (hf.layers == ExpertLayers::kSparse) return SparseLayers(fields, layers);
  if (hf.layers == ExpertLayers::kNamed) {
    std::vector<bool> named;
    for (const LayerConfig& layer : config.layers) named.push_back(layer.experts);
    return named;
  }
  if (hf.layers == ExpertLayers::kInterleaved) return InterleavedLayers(fields, layers);
  if (hf.layers == ExpertLayers::kBetween) return LayersBetween(fields, layers);
  int dense = 0;
  if (hf.layers == ExpertLayers::kBehindDense) {
    dense = hf.dense_layers;
    SLUICE_RETURN_IF_ERROR(fields.Int(hf.dense_layers_key, {0, kLayersRange.max}, &dense));
  }
  std::vector<bool> sparse(static_cast<size_t>(layers), true);
  std::fill_n(sparse.begin(), std::min(dense, layers), false);
  SLUICE_RETURN_IF_ERROR(ReadKinds(fields, &sparse));
  return sparse;
}

// The expert that every token takes.
Status ReadShared(const JsonFields& fields, const HfExperts& hf, ExpertsConfig* experts) {
  if (hf.shared.empty()) return OkStatus();
  if (hf.layers == ExpertLayers::kBehindDense || hf.shared_count > 0) {
    // Several of them are one, as wide as all.
    int count = std::max(1, hf.shared_count);
    const IntRange range = {hf.shared_count > 0 ? 0 : 1, kExpertsPerTokenRange.max};
    if (!hf.shared_count_key.empty()) {
      SLUICE_RETURN_IF_ERROR(fields.Int(hf.shared_count_key, range, &count));
    }
    experts->shared_width = count * experts->width;
    return OkStatus();
  }
  experts->shared_gate = !hf.shared_gate.empty();
  experts->shared_width = experts->shared_gate ? kQwenSharedWidth : 0;
  for (const char* key : {"shared_expert_intermediate_size", "shared_intermediate_size",
                          "moe_shared_expert_intermediate_size"}) {
    SLUICE_RETURN_IF_ERROR(fields.Int(key, {0, kIntermediateRange.max}, &experts->shared_width));
  }
  experts->shared_gate = experts->shared_gate && experts->shared_width > 0;
  return OkStatus();
}

Status ReadGroups(const JsonFields& fields, ExpertsConfig* experts) {
  SLUICE_RETURN_IF_ERROR(fields.Int("n_group", kExpertGroupsRange, &experts->groups));
  SLUICE_RETURN_IF_ERROR(fields.Int("topk_group", kExpertGroupsRange, &experts->groups_kept));
  // What DeepSeek-V2 calls taking the best of all.
  std::string method;
  SLUICE_RETURN_IF_ERROR(fields.Text("topk_method", &method));
  if (method == "greedy") experts->groups = experts->groups_kept = 1;
  return fields.Real("routed_scaling_factor", kFactorRange, &experts->scale);
}

}  // namespace

Status ReadHfExperts(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  const HfExperts& hf = info.hf_experts;
  if (hf.layers == ExpertLayers::kNone) return OkStatus();
  const bool any = std::any_of(config->layers.begin(), config->layers.end(),
                               [](const LayerConfig& layer) { return layer.experts; });
  // Files of models that could have experts and have none may tell of some.
  if (hf.layers == ExpertLayers::kNamed && !any) return OkStatus();
  const HfDefaults& defaults = info.hf_defaults;
  ExpertsConfig experts = {.count = defaults.experts,
                           .per_token = defaults.experts_per_token,
                           .width = config->intermediate_size,
                           .score = hf.score,
                           .bias = !hf.bias.empty(),
                           .product_biases = hf.product_biases,
                           .renormalize = hf.renormalize,
                           .weighs_inputs = hf.weighs_inputs};
  // transformers 5 may write either name.
  for (const char* key :
       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}) {
    SLUICE_RETURN_IF_ERROR(fields.Int(key, kExpertsRange, &experts.count));
  }
  if (!hf.bias_switch.empty()) SLUICE_RETURN_IF_ERROR(fields.Bool(hf.bias_switch, &experts.bias));
  // Files of models that could have some and have none say 0 for both.
  if (experts.count > 0) SLUICE_RETURN_IF_ERROR(ReadPerToken(fields, &experts.per_token));
  if (defaults.expert_width > 0) experts.width = defaults.expert_width;
  SLUICE_RETURN_IF_ERROR(fields.Int(hf.width_key, kIntermediateRange, &experts.width));
  SLUICE_RETURN_IF_ERROR(fields.Bool("norm_topk_prob", &experts.renormalize));
  SLUICE_RETURN_IF_ERROR(ReadShared(fields, hf, &experts));
  if (experts.shared_width > 0 && config->mlp_bias) {
    return BadModel("biases of experts that every token takes are not supported");
  }
  SLUICE_RETURN_IF_ERROR(ReadGroups(fields, &experts));
  if (fields.Has("moe_latent_size")) {
    return BadModel(
        "\"moe_latent_size\" is given; experts that read a narrower latent are not supported");
  }
  if (fields.Has("clip_qkv")) {
    return BadModel("\"clip_qkv\" is given; models that clip Q, K and V are not supported");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<bool> sparse, LayersWithExperts(fields, hf, *config));
  if (experts.count == 0) return OkStatus();
  for (size_t i = 0; i < sparse.size(); ++i) {
    config->layers[i].experts = sparse[i];
    if (sparse[i]) config->experts = experts;
  }
  return OkStatus();
}

}  // namespace sluice::files
