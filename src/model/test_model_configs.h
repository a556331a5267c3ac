// Small configs of models that are never loaded. Tests only.
#pragma once

#include "files/config_check.h"
#include "files/model_config.h"

namespace sluice::model::testing {

inline files::ModelConfig SmallConfig(files::Architecture architecture) {
  files::ModelConfig config;
  config.architecture = architecture;
  config.vocab_size = 100;
  config.hidden_size = 64;
  config.num_layers = 6;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.intermediate_size = 96;
  config.context_length = 128;
  config.rope.rotary_dims = 16;
  config.layers.resize(6);
  return config;
}

inline files::ModelConfig SmallQwen3Next() {
  files::ModelConfig config = SmallConfig(files::Architecture::kQwen3Next);
  config.qk_norm = files::QkNormKind::kHead;
  config.attention_gate = true;
  config.linear = {
      .key_heads = 2, .value_heads = 6, .key_head_dim = 4, .value_head_dim = 5, .conv_kernel = 3};
  for (int i : {0, 1, 3, 4}) config.layers[i].kind = files::LayerKind::kLinear;
  return config;
}

inline files::ModelConfig SmallLfm2() {
  files::ModelConfig config = SmallConfig(files::Architecture::kLfm2);
  config.qk_norm = files::QkNormKind::kHead;
  config.short_conv = {.kernel = 3, .bias = true};
  for (int i : {0, 1, 3, 4}) config.layers[i].kind = files::LayerKind::kShortConv;
  return config;
}

inline files::ModelConfig SmallMamba2() {
  files::ModelConfig config = SmallConfig(files::Architecture::kMamba2);
  config.linear = {.key_heads = 2,
                   .value_heads = 6,
                   .key_head_dim = 4,
                   .value_head_dim = 5,
                   .conv_kernel = 3,
                   .mamba = true,
                   .conv_bias = true};
  files::MakeMambaAlone(&config);
  return config;
}

inline files::ModelConfig SmallMiniMax() {
  files::ModelConfig config = SmallConfig(files::Architecture::kMiniMax);
  config.linear = {.key_heads = 4, .value_heads = 4, .key_head_dim = 16, .value_head_dim = 16};
  for (files::LayerConfig& layer : config.layers) layer.mixer_residual = layer.mlp_residual = 3.5f;
  for (int i : {0, 1, 3, 4}) config.layers[i].kind = files::LayerKind::kLightning;
  return config;
}

}  // namespace sluice::model::testing
