#include "model/layers/decoder_params.h"

namespace sluice::model::layers {

std::vector<weights::ParamSpec> DecoderParams(const files::ModelConfig& config) {
  // Checkpoints call the norm before the feed-forward part "post_attention" where none stands after
  // the attention.
  const bool after = files::InfoOf(config.architecture).norms_after;
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
    if (after) {
      list.Norm(i, "attention_post_norm", "post_attention_layernorm", "post_attention_norm");
    }
    if (!config.parallel_residual) {
      list.Norm(i, "mlp_norm", after ? "pre_feedforward_layernorm" : "post_attention_layernorm",
                "ffn_norm");
    }
    list.GateUp(i);
    list.Down(i);
    if (after) list.Norm(i, "mlp_post_norm", "post_feedforward_layernorm", "post_ffw_norm");
  }
  list.FinalNorm();
  list.Output();
  return list.Take();
}

}  // namespace sluice::model::layers
