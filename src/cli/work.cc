#include "cli/work.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::cli {
namespace {

// Whether a tensor of a checkpoint, which may be a part of a larger model, is called so.
bool IsCalled(std::string_view tensor, std::string_view name) {
  const std::string whole = StrCat(name, ".weight");
  return tensor == whole || tensor.ends_with("." + whole);
}

// The names of tensors that do not belong to a layer's matrices, in both kinds of file.
class Names {
 public:
  explicit Names(const files::ModelConfig& config)
      : hf_(files::InfoOf(config.architecture).hf_tensors) {}

  // The table that one row is read of per token, unless it is the output matrix too.
  bool IsEmbedding(std::string_view tensor) const {
    return tensor == "token_embd.weight" || IsCalled(tensor, hf_.embedding);
  }
  // Tables that are never more: of positions, and of what each layer is given of a token.
  bool IsTable(std::string_view tensor) const {
    return tensor == "position_embd.weight" || IsCalled(tensor, hf_.positions) ||
           tensor == "per_layer_token_embd.weight" || IsCalled(tensor, "embed_tokens_per_layer");
  }
  bool IsOutput(std::string_view tensor) const {
    return tensor == "output.weight" || IsCalled(tensor, hf_.logits);
  }

 private:
  const files::HfTensors& hf_;
};

// Tokens that a layer sees of `context`.
double Seen(int window, double context) {
  return window > 0 ? std::min<double>(window, context) : context;
}

// Of the matrices of a layer with latent attention, per token.
double LatentMacs(const files::ModelConfig& config, const files::LayerConfig& layer) {
  const files::LatentConfig& latent = config.latent;
  const double heads = config.num_heads, hidden = config.hidden_size;
  const double rank = latent.kv_rank, into = latent.q_rank > 0 ? latent.q_rank : hidden;
  const double queries = heads * (latent.nope_dim + latent.rope_dim) * into +
                         (latent.q_rank > 0 ? hidden * latent.q_rank : 0);
  const files::IndexerConfig& indexer = latent.indexer;
  const double index = layer.reuses_positions ? 0
                                              : indexer.heads * (indexer.head_dim * into + hidden) +
                                                    indexer.head_dim * hidden;
  return queries + index + hidden * latent.key_width() +
         heads * rank * (latent.nope_dim + latent.value_dim) + heads * latent.value_dim * hidden;
}

void AddShortConv(const files::ModelConfig& config, ModelWork* work) {
  const double hidden = config.hidden_size;
  work->layer_macs += 4 * hidden * hidden;
  work->state_macs += hidden * (config.short_conv.kernel + 2);  // both gates, too
  work->state_bytes += 2 * sizeof(float) * hidden * (config.short_conv.kernel - 1);
}

void AddRecurrence(const files::ModelConfig& config, ModelWork* work) {
  const files::LinearAttentionConfig& linear = config.linear;
  const double hidden = config.hidden_size;
  const double values = linear.value_width(), channels = linear.channels();
  work->layer_macs += hidden * (channels + 2 * values + linear.gates()) +
                      values * (linear.scan_width() + linear.step_rank);
  // The rule reads a state twice, with the key and the query, and adds to it once.
  work->state_macs += 3 * values * linear.key_head_dim + channels * linear.conv_kernel;
  work->state_bytes +=
      2 * sizeof(float) * (values * linear.key_head_dim + channels * linear.conv_rows());
}

void AddAttention(const files::ModelConfig& config, const files::LayerConfig& layer,
                  ModelWork* work) {
  const double hidden = config.hidden_size, head = config.head_dim_of(layer);
  const double queries = config.num_heads * head,
               keys = layer.kv_of < 0 ? config.kv_heads_of(layer) * head : 0;
  work->layer_macs += config.latent.kv_rank > 0 ? LatentMacs(config, layer)
                                                : 2 * hidden * queries + 2 * hidden * keys;
  if (config.attention_gate) work->layer_macs += hidden * queries;
  // The product for it before the first layer, and two in the layer.
  work->layer_macs += 3 * hidden * config.layer_inputs.width;
  work->layer_macs += 2 * hidden * (config.altup.laurel_rank + config.altup.streams);
  const files::IndexerConfig& indexer = config.latent.indexer;
  const int window = layer.kind == files::LayerKind::kWindow ? config.sliding_window : 0;
  work->windows.push_back(indexer.heads > 0 ? indexer.top_k : window);
}

}  // namespace

int64_t KvHeadBytes(DType dtype, int head_dim) {
  return int64_t{head_dim} * Info(dtype).bytes + (IsCode(dtype) ? sizeof(float) : 0);
}

int64_t KvTokenBytes(const files::ModelConfig& config, DType dtype,
                     const files::LayerConfig& layer) {
  const files::LatentConfig& latent = config.latent;
  if (latent.kv_rank > 0) {
    const int keys = layer.reuses_positions ? 0 : latent.indexer.head_dim;
    return KvHeadBytes(dtype, latent.key_width()) + (keys > 0 ? KvHeadBytes(dtype, keys) : 0);
  }
  return 2 * config.kv_heads_of(layer) * KvHeadBytes(dtype, config.head_dim_of(layer));
}

ModelWork WorkOf(const files::ModelConfig& config, const files::TensorSource& tensors,
                 int64_t kv_token_bytes) {
  ModelWork work;
  const Names names(config);
  const bool has_output =
      std::any_of(tensors.tensors().begin(), tensors.tensors().end(),
                  [&](const files::FileTensor& tensor) { return names.IsOutput(tensor.name); });
  const bool table_is_output = config.tied_embeddings || !has_output;
  for (const files::FileTensor& tensor : tensors.tensors()) {
    if (table_is_output ? names.IsOutput(tensor.name) : names.IsEmbedding(tensor.name)) continue;
    if (names.IsTable(tensor.name)) continue;
    work.weight_bytes += static_cast<double>(tensor.data.size());
  }
  const double hidden = config.hidden_size;
  const files::LatentConfig& latent = config.latent;
  for (const files::LayerConfig& layer : config.layers) {
    const double matrices = config.plain_mlp ? 2 : 3;
    if (layer.mlp) work.layer_macs += matrices * hidden * config.mlp_width_of(layer);
    if (layer.kind == files::LayerKind::kShortConv) {
      AddShortConv(config, &work);
    } else if (files::HasState(layer.kind)) {
      AddRecurrence(config, &work);
    } else {
      AddAttention(config, layer, &work);
    }
  }
  work.layer_macs += 2 * hidden * hidden * std::max(0, config.altup.streams - 1);
  work.output_macs = hidden * config.vocab_size;
  work.pair_macs = 2.0 * config.num_heads * config.head_dim;
  if (latent.kv_rank > 0) {
    work.pair_macs = static_cast<double>(config.num_heads) * (latent.key_width() + latent.kv_rank);
  }
  const files::IndexerConfig& indexer = latent.indexer;
  const auto reusing =
      std::count_if(config.layers.begin(), config.layers.end(),
                    [](const files::LayerConfig& layer) { return layer.reuses_positions; });
  const double own = 1.0 - static_cast<double>(reusing) / std::max(1, config.num_layers);
  work.index_macs = own * indexer.heads * indexer.head_dim;
  work.index_bytes = static_cast<double>(kv_token_bytes) * indexer.head_dim /
                     (indexer.head_dim + std::max(1, latent.key_width()));
  work.kv_bytes = static_cast<double>(kv_token_bytes) - work.index_bytes;
  work.index_bytes *= own;
  return work;
}

DType LayerFormat(const files::ModelConfig& config, const files::TensorSource& tensors) {
  const Names names(config);
  std::map<DType, size_t> bytes;
  for (const files::FileTensor& tensor : tensors.tensors()) {
    if (names.IsEmbedding(tensor.name) || names.IsTable(tensor.name) ||
        names.IsOutput(tensor.name) || tensor.shape.size() < 2)
      continue;
    bytes[tensor.dtype] += tensor.data.size();
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? config.dtype : most->first;
}

double PrefillMacs(const ModelWork& work, int tokens) {
  double pairs = 0, scored = 0;
  for (const int window : work.windows) {
    const double full = window > 0 ? std::min(window, tokens) : tokens;
    pairs += full * (full + 1) / 2 + (tokens - full) * full;
    scored += static_cast<double>(tokens) * (tokens + 1) / 2;
  }
  return tokens * (work.layer_macs + work.state_macs) + work.output_macs + pairs * work.pair_macs +
         scored * work.index_macs;
}

double DecodeBytes(const ModelWork& work, double context, int batch) {
  double kv = work.state_bytes;
  for (const int window : work.windows)
    kv += Seen(window, context) * work.kv_bytes + context * work.index_bytes;
  return work.weight_bytes + batch * kv;
}

}  // namespace sluice::cli
