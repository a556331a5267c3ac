#include "model/layers/decoder_params.h"

namespace sluice::model::layers {

std::vector<weights::ParamSpec> PreNormParams(const files::ModelConfig& config) {
  ParamList list(config);
  list.Embedding();
  for (int i = 0; i < config.num_layers; ++i) {
    list.Norm(i, "input_norm", "input_layernorm", "attn_norm");
    if (config.layers[i].kind == files::LayerKind::kLinear) {
      list.GatedDeltaNet(i);
    } else {
      list.Qkv(i);
      list.AttentionOutput(i);
    }
    list.Norm(i, "mlp_norm", "post_attention_layernorm", "ffn_norm");
    list.GateUp(i);
    list.Down(i);
  }
  list.FinalNorm();
  list.Output();
  return list.Take();
}

std::vector<weights::ParamSpec> SandwichNormParams(const files::ModelConfig& config) {
  ParamList list(config);
  list.Embedding();
  for (int i = 0; i < config.num_layers; ++i) {
    list.Norm(i, "input_norm", "input_layernorm", "attn_norm");
    list.Qkv(i);
    list.AttentionOutput(i, /*residual=*/false);
    list.Norm(i, "attention_post_norm", "post_attention_layernorm", "post_attention_norm");
    list.Norm(i, "mlp_norm", "pre_feedforward_layernorm", "ffn_norm");
    list.GateUp(i);
    list.Down(i, /*residual=*/false);
    list.Norm(i, "mlp_post_norm", "post_feedforward_layernorm", "post_ffw_norm");
  }
  list.FinalNorm();
  list.Output();
  return list.Take();
}

}  // namespace sluice::model::layers
