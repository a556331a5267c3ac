#include "files/hf_latent.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/str_cat.h"
#include "files/architectures.h"
#include "files/config_check.h"

namespace sluice::files {
namespace {

constexpr IntRange kRankRange{1, kHiddenRange.max};
constexpr IntRange kTopKRange{1, 1 << 20};

// Layers may take the positions that one before them has chosen.
Status RefuseShared(const JsonFields& fields, int layers) {
  int period = 1;
  SLUICE_RETURN_IF_ERROR(fields.Int("index_topk_freq", kLayersRange, &period));
  bool shared = period > 1;
  for (const auto& [key, own] :
       {std::pair("index_topk_pattern", "F"), std::pair("indexer_types", "full")}) {
    const Json* kinds = fields.Find(key);
    if (kinds == nullptr) continue;
    if (kinds->is_string()) {
      const auto text = kinds->get<std::string>();
      shared = text.find_first_not_of('F') != std::string::npos;
      continue;
    }
    if (!kinds->is_array() || kinds->size() != static_cast<size_t>(layers)) {
      return BadModel(StrCat("\"", key, "\" must be a text or a list of as many names as layers (",
                             layers, ")"));
    }
    // What is said of each layer counts, whatever the period is.
    shared = !std::all_of(kinds->begin(), kinds->end(), [name = own](const Json& kind) {
      return kind == name || kind == "full";
    });
  }
  if (!shared) return OkStatus();
  return BadModel(
      "layers take the positions that the indexer of another layer has chosen "
      "(\"indexer_types\", \"index_topk_pattern\" or \"index_topk_freq\"), which is not "
      "supported; an indexer in every layer is");
}

Status ReadIndexer(const JsonFields& fields, int layers, LatentConfig* latent) {
  IndexerConfig& indexer = latent->indexer;
  if (indexer.heads == 0) return OkStatus();
  SLUICE_RETURN_IF_ERROR(fields.Int("index_n_heads", kHeadsRange, &indexer.heads));
  SLUICE_RETURN_IF_ERROR(fields.Int("index_head_dim", kHeadDimRange, &indexer.head_dim));
  SLUICE_RETURN_IF_ERROR(fields.Int("index_topk", kTopKRange, &indexer.top_k));
  SLUICE_RETURN_IF_ERROR(fields.Bool("indexer_rope_interleave", &indexer.interleaved));
  if (latent->q_rank == 0) {
    return BadModel("\"q_lora_rank\" is null, but an indexer makes its queries of that latent");
  }
  if (indexer.head_dim < latent->rope_dim) {
    return BadModel(StrCat("\"index_head_dim\" is ", indexer.head_dim, ", but RoPE rotates ",
                           latent->rope_dim, " (\"qk_rope_head_dim\")"));
  }
  return RefuseShared(fields, layers);
}

}  // namespace

Status ReadHfLatent(const JsonFields& fields, ModelConfig* config) {
  LatentConfig latent = InfoOf(config->architecture).latent;
  if (fields.IsNull("q_lora_rank")) latent.q_rank = 0;
  SLUICE_RETURN_IF_ERROR(fields.Int("kv_lora_rank", kRankRange, &latent.kv_rank));
  SLUICE_RETURN_IF_ERROR(fields.Int("q_lora_rank", kRankRange, &latent.q_rank));
  SLUICE_RETURN_IF_ERROR(fields.Int("qk_nope_head_dim", kHeadDimRange, &latent.nope_dim));
  SLUICE_RETURN_IF_ERROR(fields.Int("qk_rope_head_dim", kHeadDimRange, &latent.rope_dim));
  SLUICE_RETURN_IF_ERROR(fields.Int("v_head_dim", kHeadDimRange, &latent.value_dim));
  SLUICE_RETURN_IF_ERROR(ReadIndexer(fields, config->num_layers, &latent));
  bool bias = false;
  SLUICE_RETURN_IF_ERROR(fields.Bool("attention_bias", &bias));
  if (bias) {
    return BadModel("\"attention_bias\" is true, which latent attention does not support");
  }
  config->latent = latent;
  config->num_kv_heads = 1;
  config->head_dim = latent.nope_dim + latent.rope_dim;
  return OkStatus();
}

Status FinishHfLatent(const JsonFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.rotary_dims = config->latent.rope_dim;
  SLUICE_RETURN_IF_ERROR(fields.Bool("rope_interleave", &rope.interleaved));
  if (rope.scaling == RopeScaling::kNone || !rope.mscale_all_dim || rope.factor <= 1.0f) {
    return OkStatus();
  }
  // Queries and keys are lengthened alike.
  const float stretch = 0.1f * *rope.mscale_all_dim * std::log(rope.factor) + 1.0f;
  config->attention_scale *= stretch * stretch;
  return OkStatus();
}

}  // namespace sluice::files
