#include "files/gemma_layers.h"

#include "base/str_cat.h"

namespace sluice::files {

Status CheckGemma4Kinds(const ModelConfig& config) {
  for (const LayerConfig& layer : config.layers) {
    for (const LayerConfig& other : config.layers) {
      if (layer.kind != other.kind) continue;
      if (config.head_dim_of(layer) == config.head_dim_of(other) &&
          config.kv_heads_of(layer) == config.kv_heads_of(other)) {
        break;
      }
      return BadModel(
          "layers of one kind have heads of different sizes or numbers; alike ones are supported");
    }
  }
  return OkStatus();
}

Status CheckGemma4Inputs(const ModelConfig& config) {
  const LayerInputsConfig& inputs = config.layer_inputs;
  if (inputs.width == 0 || inputs.rows >= config.vocab_size) return OkStatus();
  return BadModel(StrCat("the table of embeddings for each layer has ", inputs.rows,
                         " rows; it must have at least one for each of the ", config.vocab_size,
                         " tokens"));
}

Status ShareKv(int shared, ModelConfig* config) {
  const int own = config->num_layers - shared;
  for (int i = own; i < config->num_layers; ++i) {
    LayerConfig& layer = config->layers[static_cast<size_t>(i)];
    for (int before = 0; before < own; ++before) {
      if (config->layers[static_cast<size_t>(before)].kind == layer.kind) layer.kv_of = before;
    }
    if (layer.kv_of >= 0) continue;
    return BadModel(StrCat("the last ", shared,
                           " layers read the KV of others, and no layer before ", "layer ", own,
                           " is of the kind of layer ", i, ", whose KV it would read"));
  }
  return OkStatus();
}

Status ReadHfLayerInputs(const JsonFields& fields, int width_min, ModelConfig* config) {
  constexpr int kWidth = 256, kRows = 262144;
  LayerInputsConfig& inputs = config->layer_inputs;
  inputs.width = fields.IsNull("hidden_size_per_layer_input") ? width_min : kWidth;
  SLUICE_RETURN_IF_ERROR(
      fields.Int("hidden_size_per_layer_input", {width_min, kHiddenRange.max}, &inputs.width));
  if (inputs.width == 0) return OkStatus();
  inputs.rows = kRows;
  return fields.Int("vocab_size_per_layer_input", kVocabRange, &inputs.rows);
}

Status ReadGgufLayerInputs(const GgufFields& fields, ModelConfig* config) {
  LayerInputsConfig& inputs = config->layer_inputs;
  SLUICE_RETURN_IF_ERROR(
      fields.Int("embedding_length_per_layer_input", {0, kHiddenRange.max}, &inputs.width));
  if (inputs.width == 0) return OkStatus();
  const FileTensor* table = fields.file().Find("per_layer_token_embd.weight");
  if (table == nullptr || table->shape.empty())
    return BadModel("the tensor \"per_layer_token_embd.weight\" is missing");
  SLUICE_RETURN_IF_ERROR(
      CheckGgufInt("rows of per_layer_token_embd.weight", table->shape[0], kVocabRange));
  inputs.rows = static_cast<int>(table->shape[0]);
  return OkStatus();
}

}  // namespace sluice::files
