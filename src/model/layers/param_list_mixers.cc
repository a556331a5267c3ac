// What few decoders have: latent attention, layers with a state, experts.
#include "model/layers/param_list.h"

#include <cmath>
#include <utility>

#include "base/str_cat.h"
#include "model/layers/decoder_params.h"

namespace sluice::model::layers {

using weights::ParamRole;
using weights::ParamSpec;

void ParamList::LatentAttention(int i) {
  const files::LatentConfig& latent = config_.latent;
  const int64_t heads = config_.num_heads, hidden = config_.hidden_size;
  const int64_t nope = latent.nope_dim, rope = latent.rope_dim, rank = latent.kv_rank;
  const int64_t key = latent.key_width(), value = latent.value_dim;
  const int64_t query_columns = latent.q_rank > 0 ? latent.q_rank : hidden;
  std::string q = "self_attn.q_proj";
  if (latent.q_rank > 0) {
    q = "self_attn.q_b_proj";
    Matrix(i, "attention.q_a", {{"self_attn.q_a_proj", "attn_q_a", latent.q_rank}}, hidden, false);
    AddNorm(i, "attention.q_a_norm", {{"self_attn.q_a_layernorm", "attn_q_a_norm", latent.q_rank}});
  }
  const int64_t q_rows = nope + rope, kv_rows = nope + value;
  Matrix(i, "attention.q_nope", {{q, "", heads * nope, {heads, q_rows, 0, nope}}}, query_columns,
         false);
  AddHeads(i, "attention.q_rope", q, {heads, q_rows, nope, rope}, query_columns, 0, key);
  ParamSpec& absorb = AddHeads(i, "attention.absorb", "self_attn.kv_b_proj", {heads, rank, 0, rank},
                               nope, nope, key);
  for (weights::SourceList& list : absorb.hugging_face) {
    for (weights::ParamSource& source : list) source.transposed = {heads, kv_rows, 0, nope};
  }
  const std::string kv = "self_attn.kv_a_proj_with_mqa";
  Matrix(i, "attention.kv",
         {{kv, "", rope, {1, rank + rope, rank, rope}}, {kv, "", rank, {1, rank + rope, 0, rank}}},
         hidden, false);
  AddNorm(i, "attention.kv_norm", {{"self_attn.kv_a_layernorm", "attn_kv_a_norm", rank}});
  AddHeads(i, "attention.values", "self_attn.kv_b_proj", {heads, kv_rows, nope, value}, rank, rank,
           value);
  Matrix(i, "attention.output", {Of(names_.attention_output, "attn_output", hidden)}, heads * value,
         false, BlocksAdd(config_));
  if (latent.indexer.heads > 0 && !LayerOf(i).reuses_positions) Indexer(i);
}

void ParamList::Indexer(int i) {
  const files::IndexerConfig& indexer = config_.latent.indexer;
  const int64_t heads = indexer.heads, dim = indexer.head_dim, hidden = config_.hidden_size;
  Matrix(i, "indexer.q", {{"self_attn.indexer.wq_b", "", heads * dim}}, config_.latent.q_rank,
         false);
  Matrix(i, "indexer.k", {{"self_attn.indexer.wk", "", dim}}, hidden, false);
  const Pieces norm = {{"self_attn.indexer.k_norm", "", dim}};
  Add(i, "indexer.k_norm", ParamRole::kNorm, norm, 0, ".weight");
  Add(i, "indexer.k_norm_bias", ParamRole::kNorm, norm, 0, ".bias");
  Matrix(i, "indexer.weights", {{"self_attn.indexer.weights_proj", "", heads}}, hidden, false)
      .f32_out = true;  // so that no row sees other positions by a rounding
}

void ParamList::GatedDeltaNet(int i) {
  const files::LinearAttentionConfig& linear = config_.linear;
  Pieces pieces;
  if (info_.linear_apart) {
    pieces = {{"linear_attn.in_proj_qkv", "", linear.channels()},
              {"linear_attn.in_proj_z", "", linear.value_width()},
              {"linear_attn.in_proj_b", "", linear.value_heads},
              {"linear_attn.in_proj_a", "", linear.value_heads}};
  } else {
    pieces = InterleavedByKeyHead(linear);
  }
  Matrix(i, "linear.in", pieces, config_.hidden_size, false);
  Add(i, "linear.conv", ParamRole::kTaps, {{"linear_attn.conv1d", "", linear.channels()}},
      linear.conv_kernel, ".weight");
  const auto vector = [&](const char* name, const char* source, int64_t size, const char* suffix) {
    Add(i, name, ParamRole::kNorm, {{source, "", size}}, 0, suffix);
  };
  vector("linear.dt_bias", "linear_attn.dt_bias", linear.value_heads, "");
  vector("linear.a_log", "linear_attn.A_log", linear.value_heads, "");
  vector("linear.norm", "linear_attn.norm", linear.value_head_dim, ".weight");
  Matrix(i, "linear.output", {{"linear_attn.out_proj", "", config_.hidden_size}},
         linear.value_width(), false, BlocksAdd(config_));
}

void ParamList::GatedConv(int i) {
  const files::ShortConvConfig& conv = config_.short_conv;
  const int64_t hidden = config_.hidden_size;
  Matrix(i, "conv.in", {Of("conv.in_proj", "shortconv.in_proj", 3 * hidden)}, hidden, conv.bias);
  const Pieces taps = {Of("conv.conv", "shortconv.conv", hidden)};
  Add(i, "conv.taps", ParamRole::kTaps, taps, conv.kernel, ".weight");
  if (conv.bias) Add(i, "conv.taps_bias", ParamRole::kNorm, taps, 0, ".bias");
  Matrix(i, "conv.output", {Of("conv.out_proj", "shortconv.out_proj", hidden)}, hidden, conv.bias,
         BlocksAdd(config_));
}

void ParamList::Mamba(int i) {
  const files::LinearAttentionConfig& linear = config_.linear;
  const int64_t channels = linear.channels(), values = linear.value_width();
  const auto piece = [&](std::string_view hugging_face, std::string_view gguf, int64_t rows) {
    return Pieces{Of(StrCat(names_.mamba, hugging_face), gguf, rows)};
  };
  Matrix(i, "mamba.in", piece("in_proj", "ssm_in", values + channels + linear.value_heads),
         config_.hidden_size, linear.product_bias);
  const Pieces taps = piece("conv1d", "ssm_conv1d", channels);
  ParamSpec& filter = Add(i, "mamba.taps", ParamRole::kTaps, taps, linear.conv_kernel, ".weight");
  const files::MambaScales& scales = linear.scales;
  if (!scales.plain()) {
    std::vector<float>& factors = filter.row_factors;
    factors.assign(static_cast<size_t>(values), scales.values);
    factors.insert(factors.end(), static_cast<size_t>(linear.key_width()), scales.keys);
    factors.insert(factors.end(), static_cast<size_t>(linear.key_width()), scales.queries);
  }
  if (linear.conv_bias) Add(i, "mamba.taps_bias", ParamRole::kNorm, taps, 0, ".bias");
  Add(i, "mamba.dt_bias", ParamRole::kNorm, piece("dt_bias", "ssm_dt.bias", linear.value_heads), 0,
      "");
  const auto divided = [&](std::string_view name, const Pieces& pieces, std::string_view suffix) {
    ParamSpec& spec = Add(i, name, ParamRole::kNorm, pieces, 0, suffix);
    spec.gguf_divided = true;
    return &spec;
  };
  divided("mamba.a", piece("A_log", "ssm_a", linear.value_heads), "")->hugging_face_log = true;
  divided("mamba.skip", piece("D", "ssm_d", linear.value_heads), "");
  if (linear.gated_norm) divided("mamba.norm", piece("norm", "ssm_norm", values), ".weight");
  Matrix(i, "mamba.output", piece("out_proj", "ssm_out", config_.hidden_size), values,
         linear.product_bias, BlocksAdd(config_));
}

void ParamList::FirstMamba(int i) {
  const files::LinearAttentionConfig& linear = config_.linear;
  const int64_t values = linear.value_width(), state = linear.key_head_dim;
  const int64_t rank = linear.step_rank, hidden = config_.hidden_size;
  const auto piece = [&](std::string_view hugging_face, std::string_view gguf, int64_t rows) {
    return Pieces{Of(StrCat(names_.mamba, hugging_face), gguf, rows)};
  };
  Matrix(i, "mamba.in", piece("in_proj", "ssm_in", 2 * values), hidden, linear.product_bias);
  const Pieces taps = piece("conv1d", "ssm_conv1d", values);
  Add(i, "mamba.taps", ParamRole::kTaps, taps, linear.conv_kernel, ".weight");
  if (linear.conv_bias) Add(i, "mamba.taps_bias", ParamRole::kNorm, taps, 0, ".bias");
  Matrix(i, "mamba.scan_in", piece("x_proj", "ssm_x", linear.scan_width()), values, false);
  if (linear.scan_norms == files::ScanNorms::kWeighted) {
    AddNorm(i, "mamba.step_norm", piece("dt_layernorm", "ssm_dt_norm", rank));
    AddNorm(i, "mamba.b_norm", piece("b_layernorm", "ssm_b_norm", state));
    AddNorm(i, "mamba.c_norm", piece("c_layernorm", "ssm_c_norm", state));
  }
  const Pieces steps = piece("dt_proj", "ssm_dt", values);
  Matrix(i, "mamba.steps", steps, rank, false);
  Add(i, "mamba.dt_bias", ParamRole::kNorm, steps, 0, ".bias");
  Add(i, "mamba.a", ParamRole::kTable, piece("A_log", "ssm_a", values), state, "")
      .hugging_face_log = true;
  Add(i, "mamba.skip", ParamRole::kNorm, piece("D", "ssm_d", values), 0, "");
  Matrix(i, "mamba.output", piece("out_proj", "ssm_out", hidden), values, linear.product_bias,
         BlocksAdd(config_));
}

void ParamList::LightningAttention(int i) {
  const files::LinearAttentionConfig& linear = config_.linear;
  const int64_t dim = linear.key_head_dim, width = linear.value_width();
  // A checkpoint has them head by head, the query's rows first.
  const auto rows = [&](int64_t first) {
    return Piece{"self_attn.qkv_proj", "", width, {linear.value_heads, 3 * dim, first, dim}};
  };
  Matrix(i, "lightning.in",
         {rows(2 * dim), rows(dim), rows(0), {"self_attn.output_gate", "", width}},
         config_.hidden_size, false);
  AddNorm(i, "lightning.norm", {{"self_attn.norm", "", width}});
  Matrix(i, "lightning.output", {{"self_attn.out_proj", "", config_.hidden_size}}, width, false,
         BlocksAdd(config_));
}

void ParamList::Experts(int i) {
  const files::ExpertsConfig& experts = config_.experts;
  const files::HfExperts& names = info_.hf_experts;
  const int64_t width = experts.width, hidden = config_.hidden_size;
  Matrix(i, "experts.router",
         {Of(StrCat(names.block, names.router), "ffn_gate_inp", experts.count)}, hidden,
         experts.product_biases)
      .f32_out = true;  // so that no token takes another expert by a rounding
  if (experts.bias) {
    Add(i, "experts.score_bias", ParamRole::kNorm,
        {Of(StrCat(names.block, names.bias), "exp_probs_b.bias", experts.count)}, 0, "");
  }
  if (experts.scales) {
    Add(i, "experts.scales", ParamRole::kNorm,
        {Of("router.per_expert_scale", "ffn_down_exps.scale", experts.count)}, 0, "");
  }
  if (experts.beside_dense) {
    Add(i, "experts.router_norm", ParamRole::kNorm,
        {Of("router.scale", "ffn_gate_inp.scale", hidden)}, 0, "")
        .factor = 1.0f / std::sqrt(static_cast<float>(hidden));
    Norm(i, "experts.norm", "pre_feedforward_layernorm_2", "pre_ffw_norm_2");
    Norm(i, "dense_post_norm", "post_feedforward_layernorm_1", "post_ffw_norm_1");
    Norm(i, "experts_post_norm", "post_feedforward_layernorm_2", "post_ffw_norm_2");
  }
  if (config_.plain_mlp) {
    AddExperts(i, "experts.up", "", {Of(names.up, "ffn_up_exps", width)}, hidden);
  } else {
    AddExperts(i, "experts.gate_up", names.stacked_gate_up,
               {Of(names.gate, "ffn_gate_exps", width), Of(names.up, "ffn_up_exps", width)},
               hidden);
  }
  AddExperts(i, "experts.down", names.stacked_down, {Of(names.down, "ffn_down_exps", hidden)},
             width)
      .f32_out = true;  // what experts give is added up in F32
  if (!experts.product_biases) return;
  AddExpertBias(i, "experts.gate_up_bias", names.stacked_gate_up,
                {Of("", "ffn_gate_exps", width), Of("", "ffn_up_exps", width)});
  AddExpertBias(i, "experts.down_bias", names.stacked_down, {Of("", "ffn_down_exps", hidden)});
}

void ParamList::SharedExpert(int i) {
  const files::HfExperts& names = info_.hf_experts;
  const files::ExpertsConfig& experts = config_.experts;
  const int64_t width = experts.shared_width, hidden = config_.hidden_size;
  const auto name = [&](std::string_view matrix) { return StrCat(names.shared, matrix); };
  if (config_.plain_mlp) {
    Matrix(i, "shared.up", {Of(name(names.up), "ffn_up_shexp", width)}, hidden, false);
    Matrix(i, "shared.down", {Of(name(names.down), "ffn_down_shexp", hidden)}, width, false, true);
    return;
  }
  // Of routers' experts that lie as columns the shared one does not.
  const bool apart = names.stacked_gate_up.empty() || names.transposed;
  const Pieces pieces = apart ? Pieces{Of(name(names.gate), "ffn_gate_shexp", width),
                                       Of(name(names.up), "ffn_up_shexp", width)}
                              : Pieces{Of(name(names.stacked_gate_up), "ffn_up_shexp", 2 * width)};
  Matrix(i, "shared.gate_up", pieces, hidden, false);
  if (info_.gguf_gate_up_apart) GateUpApart(i, "ffn_gate_shexp", "ffn_up_shexp", width);
  const std::string_view down = apart ? names.down : names.stacked_down;
  Matrix(i, "shared.down", {Of(name(down), "ffn_down_shexp", hidden)}, width, false,
         !experts.shared_gate);
  if (!experts.shared_gate) return;
  Matrix(i, "shared.gate", {Of(names.shared_gate, "ffn_gate_inp_shexp", 1)}, hidden, false);
  specs_.back().f32_out = true;
}

ParamList::Pieces ParamList::InterleavedByKeyHead(const files::LinearAttentionConfig& linear) {
  const int64_t groups = linear.key_heads, shared = linear.value_heads / linear.key_heads;
  const int64_t key = linear.key_head_dim, value = shared * linear.value_head_dim;
  Pieces pieces;
  const auto add = [&](const char* name, int64_t group_rows, int64_t begin, int64_t count) {
    pieces.push_back({StrCat("linear_attn.", name), "", groups * count,
                      weights::RowPick{groups, group_rows, begin, count}});
  };
  const int64_t rows = 2 * key + 2 * value;
  add("in_proj_qkvz", rows, 0, key);
  add("in_proj_qkvz", rows, key, key);
  add("in_proj_qkvz", rows, 2 * key, value);
  add("in_proj_qkvz", rows, 2 * key + value, value);
  add("in_proj_ba", 2 * shared, 0, shared);
  add("in_proj_ba", 2 * shared, shared, shared);
  return pieces;
}

ParamSpec& ParamList::AddHeads(int i, std::string_view name, const std::string& hugging_face,
                               const weights::RowPick& pick, int64_t columns, int64_t x_step,
                               int64_t out_step) {
  ParamSpec& spec = specs_.emplace_back();
  spec.name = StrCat("layers.", i, ".", name);
  spec.role = ParamRole::kExperts;
  spec.rows = pick.groups * pick.count;
  spec.columns = columns;
  spec.experts = static_cast<int>(pick.groups);
  spec.by_columns = true;
  spec.x_step = x_step;
  spec.out_step = out_step;
  spec.hugging_face.resize(prefixes_.size());
  for (size_t p = 0; p < prefixes_.size(); ++p) {
    const std::string tensor =
        StrCat(prefixes_[p].decoder, CheckpointLayer(i), hugging_face, ".weight");
    for (int64_t head = 0; head < pick.groups; ++head) {
      weights::ParamSource source{tensor, pick.count, pick, {}};
      source.pick.first = head;
      source.pick.only = 1;
      spec.hugging_face[p].push_back(source);
    }
  }
  return spec;
}

ParamSpec& ParamList::AddExperts(int i, std::string_view name, std::string_view stacked,
                                 const Pieces& pieces, int64_t columns) {
  const int64_t experts = config_.experts.count;
  const files::HfExperts& names = info_.hf_experts;
  int64_t rows = 0;  // of one expert
  for (const Piece& piece : pieces) rows += piece.rows;
  ParamSpec& spec = AddOfExperts(i, name, ParamRole::kExperts, rows);
  spec.columns = columns;
  spec.bias = config_.experts.product_biases;
  // Some converters write the rows of gate and up into one tensor.
  if (pieces.size() == 2) spec.gguf.resize(2);
  for (int64_t e = 0; e < experts; ++e) {
    if (pieces.size() == 2)
      spec.gguf[1].push_back(
          RowsOfExpert(StrCat(GgufLayer(i), "ffn_gate_up_exps.weight"), e, rows));
    for (const Piece& piece : pieces) {
      spec.gguf[0].push_back(
          RowsOfExpert(StrCat(GgufLayer(i), piece.gguf, ".weight"), e, piece.rows));
    }
    for (size_t p = 0; p < prefixes_.size(); ++p) {
      const std::string block = StrCat(prefixes_[p].decoder, CheckpointLayer(i), names.block);
      weights::SourceList& list = spec.hugging_face[p];
      if (!stacked.empty()) {
        const std::string_view suffix = names.transposed || names.stacked_bare ? "" : ".weight";
        AddStacked(StrCat(block, stacked, suffix), e, pieces, names.transposed ? columns : 0,
                   &list);
        continue;
      }
      for (const Piece& piece : pieces) {
        list.push_back(
            {StrCat(block, "experts.", e, ".", piece.hugging_face, ".weight"), piece.rows});
      }
    }
  }
  return spec;
}

void ParamList::AddExpertBias(int i, std::string_view name, std::string_view stacked,
                              const Pieces& pieces) {
  int64_t rows = 0;
  for (const Piece& piece : pieces) rows += piece.rows;
  ParamSpec& spec = AddOfExperts(i, name, ParamRole::kBias, rows);
  for (int64_t e = 0; e < config_.experts.count; ++e) {
    for (const Piece& piece : pieces) {
      spec.gguf[0].push_back(
          RowsOfExpert(StrCat(GgufLayer(i), piece.gguf, ".bias"), e, piece.rows));
    }
    for (size_t p = 0; p < prefixes_.size(); ++p) {
      const std::string tensor = StrCat(prefixes_[p].decoder, CheckpointLayer(i),
                                        info_.hf_experts.block, stacked, "_bias");
      AddStacked(tensor, e, pieces, 0, &spec.hugging_face[p]);
    }
  }
}

ParamSpec& ParamList::AddOfExperts(int i, std::string_view name, ParamRole role, int64_t rows) {
  ParamSpec& spec = specs_.emplace_back();
  spec.name = StrCat("layers.", i, ".", name);
  spec.role = role;
  spec.experts = config_.experts.count;
  spec.experts_per_token = config_.experts.per_token;
  spec.rows = config_.experts.count * rows;
  spec.gguf.resize(1);
  spec.hugging_face.resize(prefixes_.size());
  return spec;
}

weights::ParamSource ParamList::RowsOfExpert(const std::string& tensor, int64_t e,
                                             int64_t count) const {
  return {tensor, count, {1, config_.experts.count * count, e * count, count}};
}

void ParamList::AddStacked(const std::string& tensor, int64_t e, const Pieces& pieces,
                           int64_t columns, weights::SourceList* list) const {
  weights::RowPick transposed;
  if (columns > 0) transposed = {config_.experts.count, columns, 0, columns};
  const auto turns = static_cast<int64_t>(pieces.size());
  int64_t rows = 0;
  for (const Piece& piece : pieces) rows += piece.rows;
  if (turns == 1 || !info_.hf_experts.interleaved) {
    list->push_back(RowsOfExpert(tensor, e, rows));
    list->back().transposed = transposed;
    return;
  }
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t count = pieces[static_cast<size_t>(turn)].rows;
    list->push_back({tensor,
                     count,
                     {.groups = config_.experts.count * count,
                      .group_rows = turns,
                      .begin = turn,
                      .count = 1,
                      .first = e * count,
                      .only = count},
                     transposed});
  }
}

}  // namespace sluice::model::layers
