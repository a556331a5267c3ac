#include "model/layers/decoder_params.h"

#include "model/layers/param_list.h"

namespace sluice::model::layers {
namespace {

void AddLayer(const files::ModelConfig& config, int i, const files::LayerConfig& layer,
              ParamList* list) {
  const files::ArchitectureInfo& info = files::InfoOf(config.architecture);
  const files::HfTensors& names = info.hf_tensors;
  const bool before = info.norm_places != files::NormPlaces::kAfter, after = !BlocksAdd(config);
  list->InMlp(false);
  // In GGUF the MLP's norm is then the first of two.
  const bool named = config.parallel_norms && !names.parallel_input_norm.empty();
  if (named) {
    list->Norm(i, "input_norm", names.parallel_input_norm, "attn_norm_2");
    list->Norm(i, "mlp_norm", names.parallel_mlp_norm, "attn_norm");
  } else if (before && !(i < config.num_layers && config.BesideLast(i))) {
    list->Norm(i, "input_norm", names.input_norm, "attn_norm");
  }
  list->KeptNorm(i, "input_norm_kept", names.input_norm, layer.mixer_residual);
  if (layer.kind == files::LayerKind::kLinear) {
    list->GatedDeltaNet(i);
  } else if (layer.kind == files::LayerKind::kShortConv) {
    list->GatedConv(i);
  } else if (layer.kind == files::LayerKind::kMamba) {
    config.linear.step_rank > 0 ? list->FirstMamba(i) : list->Mamba(i);
  } else if (layer.kind == files::LayerKind::kLightning) {
    list->LightningAttention(i);
  } else if (config.latent.kv_rank > 0) {
    list->LatentAttention(i);
  } else {
    list->Qkv(i, config.hidden_size);
    list->AttentionOutput(i);
  }
  if (after) {
    list->Norm(i, "attention_post_norm", names.attention_post_norm, "post_attention_norm");
  }
  if (!layer.mlp) return;
  list->InMlp(true);
  if (before && !named && (!config.parallel_residual || config.parallel_norms))
    list->Norm(i, "mlp_norm", names.mlp_norm, info.gguf_mlp_norm);
  list->KeptNorm(i, "mlp_norm_kept", names.mlp_norm, layer.mlp_residual);
  if (layer.experts) {
    list->Experts(i);
    if (config.experts.beside_dense) list->Mlp(i);
    if (config.experts.shared_width > 0) list->SharedExpert(i);
  } else {
    list->Mlp(i);
  }
  if (after) list->Norm(i, "mlp_post_norm", names.mlp_post_norm, "post_ffw_norm");
  if (i < config.num_layers) list->LayerInput(i);
  list->LayerScale(i);
  if (i < config.num_layers) list->AltUp(i);
}

}  // namespace

bool BlocksAdd(const files::ModelConfig& config) {
  return files::InfoOf(config.architecture).norm_places == files::NormPlaces::kBefore;
}

std::vector<weights::ParamSpec> DecoderParams(const files::ModelConfig& config, int mtp_heads) {
  ParamList list(config);
  list.Embedding();
  list.EmbeddingParts();
  list.LayerInputs();
  list.Streams();
  for (int i = 0; i < config.num_layers; ++i) AddLayer(config, i, config.layers[i], &list);
  list.FinalNorm();
  if (config.pooling) {
    list.Pooling();
  } else {
    list.Output();
  }
  for (int head = config.num_layers; head < config.num_layers + mtp_heads; ++head) {
    list.Norm(head, "hidden_norm", "hidden_layernorm", "");
    list.Norm(head, "token_norm", "token_layernorm", "");
    list.Join(head);
    AddLayer(config, head, files::LayerConfig(), &list);
    list.Norm(head, "final_norm", "final_layernorm", "");
  }
  return list.Take();
}

namespace {

std::vector<weights::ParamSpec> DiffusionParams(const files::EagleConfig& config) {
  ParamList list(config);
  if (config.own_embedding) list.Embedding();
  list.JoinRead(config.read_width(), config.join_bias);
  list.JoinedNorm();
  for (int i = 0; i < config.layer.num_layers; ++i) {
    list.Norm(i, "input_norm", "input_layernorm", "");
    list.Qkv(i, config.layer.hidden_size);
    list.AttentionOutput(i);
    list.Norm(i, "mlp_norm", "post_attention_layernorm", "");
    list.Mlp(i);
  }
  list.FinalNorm();
  return list.Take();
}

}  // namespace

std::vector<weights::ParamSpec> EagleParams(const files::EagleConfig& config) {
  if (config.form == files::EagleForm::kDiffusion) return DiffusionParams(config);
  const int64_t hidden = config.layer.hidden_size;
  const bool third = files::ReadsLayers(config.form);
  ParamList list(config);
  if (config.own_embedding) list.Embedding();
  // The embedding is joined with what it reads before the product, or behind it.
  list.JoinRead(config.read_width() + (third ? 0 : hidden), config.join_bias);
  list.ReadNorms(config.read_width(), config.read_norms());
  if (config.form == files::EagleForm::kParallel) list.MaskHidden(config.read_width());
  list.NamedNorm("token_norm", config.added_norms.embedding);
  list.NamedNorm("hidden_norm", config.added_norms.states);
  list.NamedNorm("layers.0.input_norm", config.added_norms.first_layer);
  list.NamedNorm("output_norm", config.added_norms.output);
  for (int i = 0; i < config.layer.num_layers; ++i) {
    if (third && i == 0) {
      list.Norm(i, "token_norm", "input_layernorm", "");
      list.Norm(i, "hidden_norm", "hidden_norm", "");
    } else if (i > 0) {
      list.Norm(i, "input_norm", "input_layernorm", "");
    }
    list.Qkv(i, third && i == 0 ? 2 * hidden : hidden);
    list.AttentionOutput(i);
    list.Norm(i, "mlp_norm", "post_attention_layernorm", "");
    list.Mlp(i);
  }
  if (third) {
    list.FinalNorm();
    list.OutputOf(config.draft_vocab_size);
  }
  return list.Take();
}

}  // namespace sluice::model::layers
