#include "model/load_model.h"

#include <algorithm>

#include "base/str_cat.h"
#include "files/architectures.h"
#include "model/layers/decoder.h"
#include "model/layers/decoder_params.h"
#include "model/layers/encoder_params.h"
#include "model/layers/layer_state.h"
#include "model/layers/mamba.h"
#include "weights/place.h"

namespace sluice::model {
namespace {

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

// What experts of the model's layers have, matrices and biases, lies in slots.
void PutInSlots(const files::ModelConfig& config, int slots,
                std::vector<weights::ParamSpec>* specs) {
  for (int layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layers[static_cast<size_t>(layer)].experts) continue;
    const std::string prefix = StrCat("layers.", layer, ".experts.");
    for (weights::ParamSpec& spec : *specs) {
      if (spec.experts == 0 || !spec.name.starts_with(prefix)) continue;
      for (int slot = 0; slot < slots; ++slot) {
        spec.slot_experts.push_back(slot % config.experts.count);
      }
    }
  }
}

}  // namespace

std::vector<weights::ParamSpec> Params(const files::ModelConfig& config, int mtp_heads,
                                       int expert_slots) {
  if (files::InfoOf(config.architecture).encoder) return layers::EncoderParams(config);
  std::vector<weights::ParamSpec> specs = layers::DecoderParams(config, mtp_heads);
  if (expert_slots > 0) PutInSlots(config, expert_slots, &specs);
  return specs;
}

Result<weights::WeightPlan> PlanWeights(const files::ModelFiles& files,
                                        const device::Device& device, DType activation,
                                        int mtp_heads, int expert_slots) {
  const auto naming = files.is_gguf ? weights::Naming::kGguf : weights::Naming::kHuggingFace;
  return weights::PlanWeights(
      Params(files.config, mtp_heads, expert_slots), *files.tensors, device,
      {.naming = naming, .activation = activation, .quantization = files.config.quantization});
}

Result<std::vector<ops::BindRecord>> ScratchBindings(const weights::WeightPlan& plan,
                                                     const files::ModelConfig& config,
                                                     const device::Device& device,
                                                     const ModelOptions& options) {
  std::vector<ops::BindRecord> records = plan.records;
  for (const batch::KvGroup& group : LayerGroups(config, options)) {
    if (group.kind == batch::KvKind::kState) {
      const auto conv = layers::ShortConvDesc(config, options, group);
      if (conv.kernel > 0)
        SLUICE_RETURN_IF_ERROR(ops::Bind<ops::ShortConv>(device.ops(), conv, &records).status());
      if (config.linear.mamba || conv.kernel == 0) {
        const auto ssd = layers::SsdDesc(config, options, group);
        SLUICE_RETURN_IF_ERROR(ops::Bind<ops::Ssd>(device.ops(), ssd, &records).status());
      } else if (!conv.gated) {
        const auto delta = layers::GatedDeltaDesc(config, options, group);
        SLUICE_RETURN_IF_ERROR(ops::Bind<ops::GatedDelta>(device.ops(), delta, &records).status());
      }
      continue;
    }
    if (config.latent.kv_rank > 0) {
      const auto latent = layers::LatentAttentionDesc(config, options, group);
      SLUICE_RETURN_IF_ERROR(
          ops::Bind<ops::LatentAttention>(device.ops(), latent, &records).status());
      continue;
    }
    const auto desc = layers::AttentionDesc(
        config, options, group, config.layers[static_cast<size_t>(group.layers.front())].use_rope);
    SLUICE_RETURN_IF_ERROR(ops::Bind<ops::Attention>(device.ops(), desc, &records).status());
  }
  return records;
}

Result<std::unique_ptr<Model>> LoadModel(const files::ModelConfig& config, weights::WeightPlan plan,
                                         device::Device& device, const ModelOptions& options) {
  ModelParts parts;
  parts.config = config;
  parts.options = options;
  parts.device = &device;
  if (parts.options.max_model_len == 0) parts.options.max_model_len = config.context_length;
  if (options.max_tokens < 1 || options.max_logits_rows < 1 || parts.options.max_model_len < 1) {
    return InvalidArgument(StrCat(
        "a model needs room for at least one token, one row of logits "
        "and one position, not for ",
        options.max_tokens, ", ", options.max_logits_rows, " and ", parts.options.max_model_len));
  }
  if (options.records != nullptr) {
    options.records->insert(options.records->end(), plan.records.begin(), plan.records.end());
  }
  SLUICE_ASSIGN_OR_RETURN(parts.parameters,
                          weights::Place(std::move(plan), device, {.progress = options.progress}));
  auto model = layers::Decoder::Make(std::move(parts));
  if (options.records != nullptr) DropRepeats(options.records);
  return model;
}

}  // namespace sluice::model
