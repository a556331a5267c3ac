#include "files/hf_latent.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/str_cat.h"
#include "files/architectures.h"
#include "files/config_check.h"

namespace sluice::files {
namespace {

constexpr IntRange kRankRange{1, kHiddenRange.max};
constexpr IntRange kTopKRange{1, 1 << 20};

constexpr int kReuseOffset = 2;  // as transformers takes it

// What "index_topk_pattern" or "indexer_types" says of one layer; nothing where it is neither.
std::optional<bool> Reuses(const Json& kind) {
  if (kind == "full" || kind == "F") return false;
  if (kind == "shared" || kind == "S") return true;
  return std::nullopt;
}

// Sets it for all layers by the key, where it is there.
Result<bool> ReadReuse(const JsonFields& fields, const char* key, ModelConfig* config) {
  const Json* kinds = fields.Find(key);
  if (kinds == nullptr) return false;
  Json list = *kinds;
  if (kinds->is_string()) {
    list = Json::array();
    for (const char letter : kinds->get<std::string>()) list.push_back(std::string(1, letter));
  }
  if (!list.is_array() || list.size() != config->layers.size()) {
    return BadModel(StrCat("\"", key, "\" must be a text or a list of as many names as layers (",
                           config->num_layers, ")"));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::optional<bool> reuses = Reuses(list[i]);
    if (!reuses) {
      return BadModel(StrCat("\"", key, "\" gives layer ", i,
                             " a name that is neither \"full\" (F) nor \"shared\" (S)"));
    }
    config->layers[i].reuses_positions = *reuses;
  }
  return true;
}

Status ReadIndexer(const JsonFields& fields, LatentConfig* latent) {
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
  return OkStatus();
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
  SLUICE_RETURN_IF_ERROR(ReadIndexer(fields, &latent));
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    // transformers adds biases to feed-forward parts of V2 alone.
    if (key == std::string_view("mlp_bias") && config->architecture != Architecture::kDeepseekV2)
      continue;
    bool bias = false;
    SLUICE_RETURN_IF_ERROR(fields.Bool(key, &bias));
    if (bias) {
      return BadModel(
          StrCat("\"", key, "\" is true, which a model of latent attention does not support"));
    }
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

Status ReadHfReusedPositions(const JsonFields& fields, ModelConfig* config) {
  if (config->latent.indexer.heads == 0) return OkStatus();
  int period = 1, offset = kReuseOffset;
  SLUICE_RETURN_IF_ERROR(fields.Int("index_topk_freq", {0, kLayersRange.max}, &period));
  SLUICE_RETURN_IF_ERROR(fields.Int("index_skip_topk_offset", {0, kLayersRange.max}, &offset));
  // What is said of each layer counts, whatever the period is.
  SLUICE_ASSIGN_OR_RETURN(bool given, ReadReuse(fields, "indexer_types", config));
  if (!given) {
    SLUICE_ASSIGN_OR_RETURN(given, ReadReuse(fields, "index_topk_pattern", config));
  }
  for (int i = 0; i < config->num_layers && !given; ++i) {
    config->layers[static_cast<size_t>(i)].reuses_positions =
        std::max(i - offset + 1, 0) % std::max(period, 1) != 0;
  }
  if (!config->layers.front().reuses_positions) return OkStatus();
  return BadModel(
      "the first layer takes the positions that the indexer of a layer before it has chosen "
      "(\"indexer_types\", \"index_topk_pattern\"), but there is none before it");
}

}  // namespace sluice::files
