#include "files/gguf_gemma3n.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/gemma_layers.h"
#include "files/hf_gemma3n.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

// Standard deviations by layer; where none is kept from the gate, the file has -infinity.
Status ReadSparsity(const GgufFields& fields, ModelConfig* config) {
  const std::string key = fields.Key("activation_sparsity_scale");
  const auto entry = fields.file().metadata().find(key);
  const size_t layers = config->layers.size();
  if (entry == fields.file().metadata().end()) {
    for (int i = 0; i < kGemma3nSparseLayers && config->num_layers > kGemma3nSparseLayers; ++i) {
      config->layers[static_cast<size_t>(i)].gate_deviations =
          static_cast<float>(NormalQuantile(kGemma3nSparsity));
    }
    return OkStatus();
  }
  const auto* array = std::get_if<GgufValue::Array>(&entry->second.value);
  const auto* each = array == nullptr ? nullptr : std::get_if<std::vector<double>>(array);
  if (each == nullptr || each->size() != layers) {
    return BadModel(
        StrCat("the metadata key ", Quote(key), " is not an array of ", layers, " numbers"));
  }
  for (size_t i = 0; i < layers; ++i) {
    const double deviations = (*each)[i];
    if (deviations == -INFINITY) continue;
    if (!(std::abs(deviations) <= 40.0)) {
      return BadModel(StrCat(Quote(key), " has ", deviations, " for layer ", i,
                             "; -infinity and -40 to 40 are legal"));
    }
    config->layers[i].gate_deviations = static_cast<float>(deviations);
  }
  return OkStatus();
}

Status ReadAltUp(const GgufFields& fields, ModelConfig* config) {
  AltUpConfig& altup = config->altup;
  int active = 0;
  altup.streams = kGemma3nStreams;
  SLUICE_RETURN_IF_ERROR(fields.Int("altup.num_inputs", kAltUpStreamsRange, &altup.streams));
  SLUICE_RETURN_IF_ERROR(fields.Int("altup.active_idx", {0, 1 << 20}, &active));
  if (active != 0) {
    return BadModel(StrCat(Quote(fields.Key("altup.active_idx")), " is ", active,
                           "; models whose layers work on another stream than the first one, 0, "
                           "are not supported"));
  }
  altup.scaled = fields.file().Find("blk.0.altup_correct_scale.weight") != nullptr;
  const FileTensor* left = fields.file().Find("blk.0.laurel_l.weight");
  if (left == nullptr || left->shape.empty())
    return BadModel("the tensor \"blk.0.laurel_l.weight\" is missing");
  SLUICE_RETURN_IF_ERROR(
      CheckGgufInt("rows of blk.0.laurel_l.weight", left->shape[0], kHiddenRange));
  altup.laurel_rank = static_cast<int>(left->shape[0]);
  return OkStatus();
}

}  // namespace

Status ReadGgufGemma3n(const GgufFields& fields, ModelConfig* config) {
  SLUICE_RETURN_IF_ERROR(ReadGgufLayerInputs(fields, config));
  if (config->layer_inputs.width == 0) {
    return BadModel(StrCat("the metadata key ",
                           Quote(fields.Key("embedding_length_per_layer_input")),
                           " is missing or 0"));
  }
  SLUICE_RETURN_IF_ERROR(ReadAltUp(fields, config));
  SLUICE_RETURN_IF_ERROR(ReadSparsity(fields, config));
  std::vector<int> widths;
  SLUICE_RETURN_IF_ERROR(
      fields.LayerInts("feed_forward_length", kIntermediateRange, config->num_layers, &widths));
  if (widths.empty()) return BadModel("the widths of feed-forward parts are missing");
  config->intermediate_size = widths.front();
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] != widths.front()) config->layers[i].mlp_width = widths[i];
  }
  int shared = std::max(0, config->num_layers - kGemma3nOwnKvLayers);
  SLUICE_RETURN_IF_ERROR(
      fields.Int("attention.shared_kv_layers", {0, config->num_layers - 1}, &shared));
  return ShareKv(shared, config);
}

}  // namespace sluice::files
