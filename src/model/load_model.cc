#include "model/load_model.h"

#include <algorithm>

#include "base/str_cat.h"
#include "model/layers/decoder.h"
#include "model/layers/decoder_params.h"
#include "weights/place.h"

namespace sluice::model {
namespace {

weights::PlaceOptions PlaceOptionsOf(const files::ModelFiles& files, const ModelOptions& options) {
  weights::PlaceOptions place;
  place.naming = files.is_gguf ? weights::Naming::kGguf : weights::Naming::kHuggingFace;
  place.activation = options.activation;
  place.progress = options.progress;
  place.records = options.records;
  return place;
}

// Layers bind the same shapes; people want to read each once.
void DropRepeats(std::vector<ops::BindRecord>* records) {
  std::vector<ops::BindRecord> unique;
  for (ops::BindRecord& record : *records) {
    const bool seen = std::any_of(unique.begin(), unique.end(), [&](const ops::BindRecord& other) {
      return other.op == record.op && other.shape == record.shape;
    });
    if (!seen) unique.push_back(std::move(record));
  }
  *records = std::move(unique);
}

}  // namespace

std::vector<weights::ParamSpec> Params(const files::ModelConfig& config) {
  return layers::DecoderParams(config);
}

Result<std::unique_ptr<Model>> LoadModel(const files::ModelFiles& files, device::Device& device,
                                         const ModelOptions& options) {
  ModelParts parts;
  parts.config = files.config;
  parts.options = options;
  parts.device = &device;
  if (parts.options.max_model_len == 0) parts.options.max_model_len = files.config.context_length;
  if (options.max_tokens < 1 || options.max_logits_rows < 1 || parts.options.max_model_len < 1) {
    return InvalidArgument(StrCat(
        "a model needs room for at least one token, one row of logits "
        "and one position, not for ",
        options.max_tokens, ", ", options.max_logits_rows, " and ", parts.options.max_model_len));
  }
  SLUICE_ASSIGN_OR_RETURN(parts.parameters, weights::Place(Params(files.config), *files.tensors,
                                                           device, PlaceOptionsOf(files, options)));
  auto model = layers::Decoder::Make(std::move(parts));
  if (options.records != nullptr) DropRepeats(options.records);
  return model;
}

Result<size_t> WeightBytes(const files::ModelFiles& files, device::Device& device,
                           const ModelOptions& options) {
  weights::PlaceOptions place = PlaceOptionsOf(files, options);
  place.records = nullptr;
  return weights::PlacedBytes(Params(files.config), *files.tensors, device, place);
}

Result<std::vector<ops::BindRecord>> ScratchBindings(const files::ModelFiles& files,
                                                     device::Device& device,
                                                     const ModelOptions& options) {
  std::vector<ops::BindRecord> records;
  weights::PlaceOptions place = PlaceOptionsOf(files, options);
  place.records = &records;
  SLUICE_RETURN_IF_ERROR(
      weights::PlacedBytes(Params(files.config), *files.tensors, device, place).status());
  for (const batch::KvGroup& group : LayerGroups(files.config, options)) {
    if (group.kind == batch::KvKind::kState) {
      const auto conv = layers::ShortConvDesc(files.config, options, group);
      const auto delta = layers::GatedDeltaDesc(files.config, options, group);
      SLUICE_RETURN_IF_ERROR(ops::Bind<ops::ShortConv>(device.ops(), conv, &records).status());
      SLUICE_RETURN_IF_ERROR(ops::Bind<ops::GatedDelta>(device.ops(), delta, &records).status());
      continue;
    }
    const auto desc = layers::AttentionDesc(files.config, options, group);
    SLUICE_RETURN_IF_ERROR(ops::Bind<ops::Attention>(device.ops(), desc, &records).status());
  }
  return records;
}

}  // namespace sluice::model
