#include "model/layers/param_list.h"
#include "model/registry.h"

namespace sluice::model {

std::vector<weights::ParamSpec> Qwen3Params(const files::ModelConfig& config) {
  layers::ParamList list(config);
  list.Embedding();
  for (int i = 0; i < config.num_layers; ++i) {
    list.Norm(i, "input_norm", "input_layernorm", "attn_norm");
    list.Qkv(i);
    list.AttentionOutput(i);
    list.Norm(i, "mlp_norm", "post_attention_layernorm", "ffn_norm");
    list.GateUp(i);
    list.Down(i);
  }
  list.FinalNorm();
  list.Output();
  return list.Take();
}

}  // namespace sluice::model
