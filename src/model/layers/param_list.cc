#include "model/layers/param_list.h"

#include <cmath>
#include <utility>

#include "base/str_cat.h"
#include "model/layers/decoder_params.h"
#include "model/layers/pooling_params.h"

namespace sluice::model::layers {

using weights::ParamRole;
using weights::ParamSpec;

ParamList::ParamList(const files::ModelConfig& config)
    : config_(config),
      info_(files::InfoOf(config.architecture)),
      names_(info_.hf_tensors),
      prefixes_{{std::string(names_.decoder), ""}} {
  // As sentence-transformers writes a model that embeds: without the model around the decoder. Some
  // old checkpoints of models that generate are written so, too.
  if (config.pooling || names_.decoder != files::HfTensors().decoder) {
    prefixes_.push_back({"", ""});
  }
  if (info_.in_multimodal) {
    // As old and new transformers write it.
    prefixes_.push_back({"language_model.model.", "language_model."});
    prefixes_.push_back({"model.language_model.", ""});
  }
}

ParamList::ParamList(const files::EagleConfig& eagle)
    : config_(eagle.layer),
      info_(files::InfoOf(config_.architecture)),
      names_(info_.hf_tensors),
      prefixes_{{"", ""}, {"model.", ""}} {
  if (!files::ReadsLayers(eagle.form)) {
    prefixes_.push_back({"", "", "transformer."});  // as speculators spells the one layer
    return;
  }
  // SpecForge and SGLang know one layer, of this name; vLLM and its speculators number them.
  prefixes_.insert(prefixes_.begin(), {{"", "", "midlayer."}, {"model.", "", "midlayer."}});
}

void ParamList::Embedding() {
  AddTop("embedding", ParamRole::kEmbedding, config_.vocab_size, config_.hidden_size,
         &Prefix::decoder, StrCat(names_.embedding, ".weight"), "token_embd.weight");
}

void ParamList::EmbeddingParts() {
  if (config_.position_rows > 0) {
    AddTop("position_embedding", ParamRole::kEmbedding, config_.position_rows, config_.hidden_size,
           &Prefix::decoder, StrCat(names_.positions, ".weight"), "position_embd.weight");
  }
  if (!config_.embedding_norm) return;
  for (const char* part : {"weight", "bias"}) {
    AddTop(part == std::string_view("bias") ? "embedding_norm_bias" : "embedding_norm",
           ParamRole::kNorm, config_.hidden_size, 0, &Prefix::decoder,
           StrCat(names_.embedding_norm, ".", part), StrCat("token_embd_norm.", part).c_str());
  }
}

void ParamList::Output() {
  if (!config_.target_ids.empty()) {
    OutputOf(static_cast<int64_t>(config_.target_ids.size()));
    return;
  }
  const bool tied = config_.tied_embeddings;
  ParamSpec& spec =
      AddTop("output", ParamRole::kLinear, config_.vocab_size, config_.hidden_size,
             tied ? &Prefix::decoder : &Prefix::output,
             StrCat(tied ? names_.embedding : names_.logits, ".weight"), "output.weight");
  // llama.cpp's files tie by leaving the output matrix out.
  spec.gguf.push_back({{"token_embd.weight", spec.rows}});
  spec.f32_out = true;  // the sampler's logits
  spec.bias = config_.logits_bias;
  if (!config_.logits_bias) return;
  AddTop("output_bias", ParamRole::kBias, config_.vocab_size, 0, &Prefix::output,
         StrCat(names_.logits, ".bias"), "output.bias");
}

void ParamList::Pooling() {
  const std::string_view prefixes[] = {"", names_.decoder};
  AddPoolingParams(config_, prefixes, &specs_);
}

void ParamList::FinalNorm() {
  ParamSpec& norm = AddTop("final_norm", ParamRole::kNorm, config_.hidden_size, 0, &Prefix::decoder,
                           StrCat(names_.final_norm, ".weight"),
                           StrCat(info_.gguf_final_norm, ".weight").c_str());
  norm.hugging_face_adds_one = info_.hf_norms_add_one;
  norm.factor = config_.logit_scale;
  if (info_.norm != files::ModelNorm::kLayer) return;
  AddTop("final_norm_bias", ParamRole::kNorm, config_.hidden_size, 0, &Prefix::decoder,
         StrCat(names_.final_norm, ".bias"), "output_norm.bias")
      .factor = config_.logit_scale;
}

void ParamList::Norm(int i, std::string_view name, std::string_view hugging_face,
                     std::string_view gguf) {
  const Pieces pieces = {{std::string(hugging_face), std::string(gguf), config_.hidden_size}};
  AddNorm(i, name, pieces);
  // llama.cpp's converter leaves the ending of this one out.
  if (info_.architecture == files::Architecture::kFalconH1 && name == "mlp_norm")
    specs_.back().gguf.push_back({{StrCat(GgufLayer(i), gguf), config_.hidden_size}});
  if (info_.norm != files::ModelNorm::kLayer) return;
  Add(i, StrCat(name, "_bias"), ParamRole::kNorm, pieces, 0, ".bias");
}

void ParamList::KeptNorm(int i, std::string_view name, std::string_view hugging_face,
                         float factor) {
  if (factor == 0.0f) return;
  Norm(i, name, hugging_face, "");
  specs_.back().factor = factor;
}

void ParamList::Qkv(int i, int64_t columns) {
  const files::LayerConfig layer = LayerOf(i);
  const int head_dim = config_.head_dim_of(layer);
  const int64_t q = int64_t{config_.num_heads} * head_dim;
  const int64_t kv = int64_t{config_.kv_heads_of(layer)} * head_dim;
  Pieces pieces = QkvPieces(info_.qkv, layer);
  if (config_.attention_gate) {
    // Head by head the query's rows, then the gate's.
    const int64_t dim = head_dim;
    pieces.push_back(pieces.front());
    pieces.front().pick = {config_.num_heads, 2 * dim, 0, dim};
    pieces.back().pick = {config_.num_heads, 2 * dim, dim, dim};
  }
  const size_t first = specs_.size();
  Matrix(i, "attention.qkv", pieces, columns, config_.attention_bias);
  if (info_.gguf_qkv != info_.qkv) {
    for (size_t s = first; s < specs_.size(); ++s) {
      const std::string_view suffix = s == first ? ".weight" : ".bias";
      specs_[s].gguf[0].clear();
      for (const Piece& piece : QkvPieces(info_.gguf_qkv, layer)) {
        specs_[s].gguf[0].push_back({StrCat(GgufLayer(i), piece.gguf, suffix), piece.rows});
      }
    }
  }
  const bool weights = config_.qk_norm != files::QkNormKind::kNone &&
                       config_.qk_norm != files::QkNormKind::kHeadPlain;
  if (!weights) return;
  const bool head = config_.qk_norm == files::QkNormKind::kHead;
  AddNorm(i, "attention.q_norm", {Of(names_.q_norm, "attn_q_norm", head ? head_dim : q)});
  if (layer.kv_of >= 0) return;
  AddNorm(i, "attention.k_norm", {Of(names_.k_norm, "attn_k_norm", head ? head_dim : kv)});
}

void ParamList::AttentionOutput(int i) {
  Matrix(i, "attention.output", {Of(names_.attention_output, "attn_output", config_.hidden_size)},
         int64_t{config_.num_heads} * config_.head_dim_of(LayerOf(i)),
         config_.attention_output_bias, BlocksAdd(config_) && !config_.parallel_norms);
  if (!config_.attention_sinks) return;
  Add(i, "attention.sinks", ParamRole::kNorm,
      {{"self_attn.sinks", "attn_sinks.weight", config_.num_heads}}, 0, "");
}

void ParamList::LayerScale(int i) {
  if (!info_.layer_scales) return;
  Add(i, "scale", ParamRole::kNorm, {{"layer_scalar", "layer_output_scale.weight", 1}}, 0, "");
}

void ParamList::LayerInputs() {
  const files::LayerInputsConfig& inputs = config_.layer_inputs;
  if (inputs.width == 0) return;
  const int64_t all = int64_t{config_.num_layers} * inputs.width;
  AddTop("layer_inputs.embedding", ParamRole::kEmbedding, inputs.rows, all, &Prefix::decoder,
         "embed_tokens_per_layer.weight", "per_layer_token_embd.weight");
  AddTop("layer_inputs.projection", ParamRole::kLinear, all, config_.hidden_size, &Prefix::decoder,
         "per_layer_model_projection.weight", "per_layer_model_proj.weight");
  // Both parts are halves of the sum, by their squares.
  AddTop("layer_inputs.norm", ParamRole::kNorm, inputs.width, 0, &Prefix::decoder,
         "per_layer_projection_norm.weight", "per_layer_proj_norm.weight")
      .factor = std::sqrt(0.5f);
}

void ParamList::LayerInput(int i) {
  const int64_t width = config_.layer_inputs.width, hidden = config_.hidden_size;
  if (width == 0) return;
  Matrix(i, "layer_input.gate", {Of("per_layer_input_gate", "inp_gate", width)}, hidden, false);
  Matrix(i, "layer_input.output", {Of("per_layer_projection", "proj", hidden)}, width, false);
  Norm(i, "layer_input_post_norm", "post_per_layer_input_norm", "post_norm");
}

void ParamList::Streams() {
  const int64_t others = config_.altup.streams - 1, hidden = config_.hidden_size;
  if (others < 1) return;
  // GGUF has all matrices of a kind in one tensor.
  const auto add = [&](const std::string& name, const char* hugging_face, const char* gguf,
                       int64_t first, int64_t count) {
    ParamSpec& spec = AddTop(name.c_str(), ParamRole::kLinear, count * hidden, hidden,
                             &Prefix::decoder, "", gguf);
    spec.begins_residual = true;
    spec.gguf_stacked = true;
    spec.gguf = {{{gguf, spec.rows, {others, hidden, 0, hidden, first, count}}}};
    for (size_t p = 0; p < prefixes_.size(); ++p) {
      spec.hugging_face[p].clear();
      for (int64_t i = first; i < first + count; ++i) {
        spec.hugging_face[p].push_back(
            {StrCat(prefixes_[p].decoder, hugging_face, ".", i, ".weight"), hidden});
      }
    }
  };
  add("streams.begin", "altup_projections", "altup_proj.weight", 0, others);
  for (int64_t i = 0; i < others; ++i) {
    add(StrCat("streams.end.", i + 1), "altup_unembed_projections", "altup_unembd_proj.weight", i,
        1);
  }
}

void ParamList::AltUp(int i) {
  const int64_t n = config_.altup.streams, rank = config_.altup.laurel_rank;
  const int64_t hidden = config_.hidden_size;
  if (n == 0) return;
  Norm(i, "altup.router_norm", "altup.router_norm", "altup_router_norm");
  specs_.back().factor = 1.0f / static_cast<float>(hidden);
  Matrix(i, "altup.router", {Of("altup.modality_router", "altup_router", n)}, hidden, false)
      .f32_out = true;
  Add(i, "altup.predict", ParamRole::kTable,
      {Of("altup.prediction_coefs", "altup_predict_coef", n * n)}, n, ".weight");
  Add(i, "altup.correct", ParamRole::kTable,
      {Of("altup.correction_coefs", "altup_correct_coef", n)}, n, ".weight");
  if (config_.altup.scaled) {
    Add(i, "altup.scale", ParamRole::kNorm,
        {{"altup.correct_output_scale", "altup_correct_scale.weight", hidden}}, 0, "");
  }
  Matrix(i, "laurel.left", {Of("laurel.linear_left", "laurel_l", rank)}, hidden, false);
  Matrix(i, "laurel.right", {Of("laurel.linear_right", "laurel_r", hidden)}, rank, false);
  Norm(i, "laurel.post_norm", "laurel.post_laurel_norm", "laurel_post_norm");
}

void ParamList::Mlp(int i) {
  const int64_t width = config_.mlp_width_of(LayerOf(i));
  if (config_.plain_mlp) {
    Matrix(i, "mlp.up", {Of(names_.up, "ffn_up", width)}, config_.hidden_size, config_.mlp_bias);
  } else {
    const Pieces pieces = info_.gate_up_stacked ? Pieces{Of(names_.gate_up, "ffn_up", 2 * width)}
                                                : Pieces{Of(names_.gate, "ffn_gate", width),
                                                         Of(names_.up, "ffn_up", width)};
    Matrix(i, "mlp.gate_up", pieces, config_.hidden_size, config_.mlp_bias);
    if (info_.gguf_gate_up_apart) GateUpApart(i, "ffn_gate", "ffn_up", width);
  }
  Matrix(i, "mlp.down", {Of(names_.down, "ffn_down", config_.hidden_size)}, width, config_.mlp_bias,
         BlocksAdd(config_));
}

void ParamList::GateUpApart(int i, const char* gate, const char* up, int64_t width) {
  specs_.back().gguf = {{{StrCat(GgufLayer(i), gate, ".weight"), width},
                         {StrCat(GgufLayer(i), up, ".weight"), width}}};
}

void ParamList::Join(int i) {
  Add(i, "join", ParamRole::kLinear, {{"input_proj", "", config_.hidden_size}},
      2 * int64_t{config_.hidden_size}, ".weight")
      .begins_residual = true;
}

void ParamList::JoinRead(int64_t columns, bool bias) {
  ParamSpec& spec = AddTop("fc", ParamRole::kLinear, config_.hidden_size, columns, &Prefix::decoder,
                           "fc.weight", "");
  spec.begins_residual = true;
  spec.bias = bias;
  spec.hugging_face.push_back({{"fusion_fc.weight", spec.rows}});
  if (!bias) return;
  ParamSpec& added =
      AddTop("fc_bias", ParamRole::kBias, config_.hidden_size, 0, &Prefix::decoder, "fc.bias", "");
  added.hugging_face.push_back({{"fusion_fc.bias", added.rows}});
}

void ParamList::NamedNorm(const char* name, const std::string& tensor) {
  if (tensor.empty()) return;
  AddTop(name, ParamRole::kNorm, config_.hidden_size, 0, &Prefix::decoder, tensor, "")
      .hugging_face = {{{tensor, config_.hidden_size}}};
}

void ParamList::JoinedNorm() {
  AddTop("joined_norm", ParamRole::kNorm, config_.hidden_size, 0, &Prefix::decoder,
         "hidden_norm.weight", "");
}

void ParamList::ReadNorms(int64_t columns, int norms) {
  for (int i = 0; i < norms; ++i) {
    const std::string theirs = norms == 1 ? "input_norm.weight" : StrCat("fc_norm.", i, ".weight");
    AddTop(StrCat("read_norm.", i).c_str(), ParamRole::kNorm, columns / norms, 0, &Prefix::decoder,
           theirs, "");
  }
}

void ParamList::MaskHidden(int64_t columns) {
  AddTop("mask_hidden", ParamRole::kEmbedding, 1, columns, &Prefix::decoder, "mask_hidden", "");
}

void ParamList::OutputOf(int64_t tokens) {
  AddTop("output", ParamRole::kLinear, tokens, config_.hidden_size, &Prefix::output,
         "lm_head.weight", "output.weight")
      .f32_out = true;
}

std::vector<ParamSpec> ParamList::Take() {
  // No GGUF file gets as far as this; what it would call them is not known here.
  if (info_.gguf_name.empty()) {
    for (ParamSpec& spec : specs_) spec.gguf.clear();
  }
  return std::move(specs_);
}

files::LayerConfig ParamList::LayerOf(int i) const {
  const auto index = static_cast<size_t>(i);
  return index < config_.layers.size() ? config_.layers[index] : files::LayerConfig();
}

ParamList::Pieces ParamList::QkvPieces(files::QkvLayout layout,
                                       const files::LayerConfig& layer) const {
  const int64_t dim = config_.head_dim_of(layer), kv_heads = config_.kv_heads_of(layer);
  const int64_t q = int64_t{config_.num_heads} * dim, kv = kv_heads * dim;
  switch (layout) {
    case files::QkvLayout::kApart:
      if (layer.kv_of >= 0) return {Of(names_.q, "attn_q", q)};
      return {Of(names_.q, "attn_q", q), Of(names_.k, "attn_k", kv),
              layer.v_is_k ? Of(names_.k, "attn_k", kv) : Of(names_.v, "attn_v", kv)};
    case files::QkvLayout::kStacked:
      return {Of(names_.qkv, "attn_qkv", q + 2 * kv)};
    case files::QkvLayout::kByHead:
      break;
  }
  const int64_t shared = config_.num_heads / kv_heads, rows = (shared + 2) * dim;
  Pieces pieces = {Of(names_.qkv, "", q), Of(names_.qkv, "", kv), Of(names_.qkv, "", kv)};
  pieces[0].pick = {kv_heads, rows, 0, shared * dim};
  pieces[1].pick = {kv_heads, rows, shared * dim, dim};
  pieces[2].pick = {kv_heads, rows, (shared + 1) * dim, dim};
  return pieces;
}

ParamSpec& ParamList::AddTop(const char* name, ParamRole role, int64_t rows, int64_t columns,
                             std::string Prefix::*prefix, const std::string& hugging_face,
                             const char* gguf) {
  ParamSpec& spec = specs_.emplace_back();
  spec.name = name;
  spec.role = role;
  spec.rows = rows;
  spec.columns = columns;
  for (const Prefix& p : prefixes_) spec.hugging_face.push_back({{p.*prefix + hugging_face, rows}});
  spec.gguf = {{{gguf, rows}}};
  return spec;
}

int ParamList::StoredLayer(int i) const {
  if (i >= static_cast<int>(config_.layers.size())) return i;
  return in_mlp_ ? config_.StoredMlp(i) : config_.StoredMixer(i);
}

std::string ParamList::CheckpointLayer(int i) const {
  const int heads_from = config_.num_layers;
  return i < heads_from ? StrCat(names_.layers, StoredLayer(i), ".")
                        : StrCat("mtp_layers.", i - heads_from, ".");
}

std::string ParamList::GgufLayer(int i) const { return StrCat("blk.", StoredLayer(i), "."); }

ParamSpec& ParamList::Add(int i, std::string_view name, ParamRole role, const Pieces& pieces,
                          int64_t columns, std::string_view suffix) {
  ParamSpec& spec = specs_.emplace_back();
  spec.name = StrCat("layers.", i, ".", name);
  spec.role = role;
  spec.columns = columns;
  spec.hugging_face.resize(prefixes_.size());
  spec.gguf.resize(1);
  for (const Piece& piece : pieces) {
    spec.rows += piece.rows;
    for (size_t p = 0; p < prefixes_.size(); ++p) {
      const std::string& first = prefixes_[p].first_layer;
      spec.hugging_face[p].push_back(
          {StrCat(prefixes_[p].decoder, i == 0 && !first.empty() ? first : CheckpointLayer(i),
                  piece.hugging_face, suffix),
           piece.rows, piece.pick});
    }
    spec.gguf[0].push_back({StrCat(GgufLayer(i), piece.gguf, suffix), piece.rows, piece.pick});
  }
  return spec;
}

void ParamList::AddNorm(int i, std::string_view name, const Pieces& pieces) {
  Add(i, name, ParamRole::kNorm, pieces, 0, ".weight").hugging_face_adds_one =
      info_.hf_norms_add_one;
}

ParamSpec& ParamList::Matrix(int i, std::string_view name, const Pieces& pieces, int64_t columns,
                             bool bias, bool residual) {
  const size_t index = specs_.size();
  ParamSpec& spec = Add(i, name, ParamRole::kLinear, pieces, columns, ".weight");
  spec.bias = bias;
  spec.residual = residual;
  for (weights::SourceList& list : spec.hugging_face) {
    if (!info_.hf_transposed) break;
    for (weights::ParamSource& source : list) source.transposed = {1, columns, 0, columns};
  }
  if (bias) Add(i, StrCat(name, "_bias"), ParamRole::kBias, pieces, 0, ".bias");
  return specs_[index];
}

}  // namespace sluice::model::layers
