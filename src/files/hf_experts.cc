#include "files/hf_experts.h"

#include "base/str_cat.h"

namespace sluice::files {
namespace {

constexpr IntRange kSparseStepRange{1, 1 << 20};

}  // namespace

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

Status ReadHfExperts(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config) {
  if (info.hf_experts == HfExperts::kNone) return OkStatus();
  const HfDefaults& defaults = info.hf_defaults;
  ExpertsConfig experts = {.count = defaults.experts,
                           .per_token = defaults.experts_per_token,
                           .width = config->intermediate_size,
                           .renormalize = info.hf_experts == HfExperts::kEvery};
  // transformers 5 may write either name.
  for (const char* key : {"num_local_experts", "num_experts"}) {
    SLUICE_RETURN_IF_ERROR(fields.Int(key, kExpertsRange, &experts.count));
  }
  SLUICE_RETURN_IF_ERROR(
      fields.Int("num_experts_per_tok", kExpertsPerTokenRange, &experts.per_token));
  std::vector<bool> sparse(config->layers.size(), true);
  if (info.hf_experts == HfExperts::kSparse) {
    experts.width = defaults.expert_width;
    SLUICE_RETURN_IF_ERROR(fields.Int("moe_intermediate_size", kIntermediateRange, &experts.width));
    SLUICE_RETURN_IF_ERROR(fields.Bool("norm_topk_prob", &experts.renormalize));
    SLUICE_ASSIGN_OR_RETURN(sparse, SparseLayers(fields, config->num_layers));
  }
  if (experts.count == 0) return OkStatus();
  for (size_t i = 0; i < sparse.size(); ++i) {
    config->layers[i].experts = sparse[i];
    if (sparse[i]) config->experts = experts;
  }
  return OkStatus();
}

}  // namespace sluice::files
