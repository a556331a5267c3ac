#include "model/layers/param_list.h"
#include "model/registry.h"

namespace sluice::model {

std::vector<weights::ParamSpec> Gemma3Params(const files::ModelConfig& config) {
  layers::ParamList list(
      config,
      // text only; inside a multimodal checkpoint, as old and new transformers write it
      {{"model.", ""},
       {"language_model.model.", "language_model."},
       {"model.language_model.", ""}});
  list.NormsAddOne();
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

}  // namespace sluice::model
