#include "model/registry.h"

#include <algorithm>

#include "base/str_cat.h"
#include "weights/parameters.h"

namespace sluice::model {
namespace {

struct Entry {
  std::vector<weights::ParamSpec> (*params)(const files::ModelConfig&);
  Result<std::unique_ptr<Model>> (*make)(ModelParts);
};

// In the order of the enum, which the same list makes.
#define SLUICE_MODEL_ENTRY(name) {name##Params, Make##name},
constexpr Entry kEntries[] = {SLUICE_ARCHITECTURES(SLUICE_MODEL_ENTRY)};
#undef SLUICE_MODEL_ENTRY

const Entry& Find(files::Architecture architecture) {
  return kEntries[static_cast<size_t>(architecture)];
}

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
  return Find(config.architecture).params(config);
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
  auto model = Find(files.config.architecture).make(std::move(parts));
  if (options.records != nullptr) DropRepeats(options.records);
  return model;
}

Result<size_t> WeightBytes(const files::ModelFiles& files, device::Device& device,
                           const ModelOptions& options) {
  weights::PlaceOptions place = PlaceOptionsOf(files, options);
  place.records = nullptr;
  return weights::PlacedBytes(Params(files.config), *files.tensors, device, place);
}

}  // namespace sluice::model
