#include "files/hf_gemma3n.h"

#include <cmath>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "files/gemma_layers.h"
#include "files/published_values.h"

namespace sluice::files {
namespace {

// What transformers takes for keys that are not there.
constexpr int kLaurelRank = 64, kSharedKvLayers = 15;
constexpr RealRange kSparsityRange{0.0, 0.999999};

Status ReadWidths(const JsonFields& fields, ModelConfig* config) {
  const Json* widths = fields.Find("intermediate_size");
  if (widths == nullptr || !widths->is_array()) return OkStatus();
  std::vector<int> each;
  SLUICE_RETURN_IF_ERROR(fields.Ids("intermediate_size", kIntermediateRange, &each));
  if (each.size() != config->layers.size()) {
    return BadModel(StrCat("\"intermediate_size\" is a list of ", each.size(), " widths; one, or ",
                           config->num_layers, " for the layers are needed"));
  }
  config->intermediate_size = each.front();
  for (size_t i = 0; i < each.size(); ++i) {
    if (each[i] != each.front()) config->layers[i].mlp_width = each[i];
  }
  return OkStatus();
}

Status ReadSparsity(const JsonFields& fields, ModelConfig* config) {
  constexpr char kKey[] = "activation_sparsity_pattern";
  const size_t layers = config->layers.size();
  std::vector<float> shares;
  SLUICE_RETURN_IF_ERROR(fields.Reals(kKey, kSparsityRange, layers, &shares));
  if (!fields.Has(kKey)) {
    shares.assign(layers, 0.0f);
    for (int i = 0; i < kGemma3nSparseLayers && config->num_layers > kGemma3nSparseLayers; ++i)
      shares[static_cast<size_t>(i)] = kGemma3nSparsity;
  }
  if (shares.size() != layers) {
    return BadModel(StrCat(Quote(kKey), " is a list of ", shares.size(), " shares; ", layers,
                           " for the layers are needed"));
  }
  for (size_t i = 0; i < layers; ++i) {
    if (shares[i] > 0.0f)
      config->layers[i].gate_deviations = static_cast<float>(NormalQuantile(shares[i]));
  }
  return OkStatus();
}

Status ReadAltUp(const JsonFields& fields, ModelConfig* config) {
  AltUpConfig& altup = config->altup;
  int active = 0;
  altup.streams = kGemma3nStreams;
  altup.laurel_rank = kLaurelRank;
  SLUICE_RETURN_IF_ERROR(fields.Int("altup_num_inputs", kAltUpStreamsRange, &altup.streams));
  SLUICE_RETURN_IF_ERROR(fields.Int("altup_active_idx", {0, 1 << 20}, &active));
  if (active != 0) {
    return BadModel(StrCat("\"altup_active_idx\" is ", active,
                           "; models whose layers work on another stream than the first one, 0, "
                           "are not supported"));
  }
  SLUICE_RETURN_IF_ERROR(fields.Bool("altup_correct_scale", &altup.scaled));
  return fields.Int("laurel_rank", kHiddenRange, &altup.laurel_rank);
}

}  // namespace

double NormalQuantile(double below) {
  double low = -40.0, high = 40.0;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle * std::sqrt(0.5)) < below ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

Status ReadHfGemma3n(const JsonFields& fields, ModelConfig* config) {
  SLUICE_RETURN_IF_ERROR(ReadHfLayerInputs(fields, 1, config));
  SLUICE_RETURN_IF_ERROR(ReadAltUp(fields, config));
  SLUICE_RETURN_IF_ERROR(ReadWidths(fields, config));
  SLUICE_RETURN_IF_ERROR(ReadSparsity(fields, config));
  int shared = kSharedKvLayers;
  SLUICE_RETURN_IF_ERROR(fields.Int("num_kv_shared_layers", {0, kLayersRange.max}, &shared));
  if (shared >= config->num_layers) {
    return BadModel(StrCat("\"num_kv_shared_layers\" is ", shared, " of ", config->num_layers,
                           " layers; the first one at least has KV of its own"));
  }
  return ShareKv(shared, config);
}

}  // namespace sluice::files
