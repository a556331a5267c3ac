#include "model/load/load_model.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "files/architectures.h"
#include "model/layers/activations.h"
#include "model/layers/altup_decoder.h"
#include "model/layers/decoder.h"
#include "model/layers/decoder_params.h"
#include "model/layers/encoder_params.h"
#include "model/layers/first_mamba.h"
#include "model/layers/host_experts.h"
#include "model/layers/layer_state.h"
#include "model/layers/mamba.h"
#include "weights/place.h"
#include "weights/unused_biases.h"

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

// Whether it is what experts of the layer have, matrices or biases.
bool IsOfExperts(const weights::ParamSpec& spec, int layer) {
  return spec.experts > 0 && spec.name.starts_with(StrCat("layers.", layer, ".experts."));
}

bool IsOfExperts(const weights::ParamSpec& spec, std::span<const int> layers) {
  return std::any_of(layers.begin(), layers.end(),
                     [&](int layer) { return IsOfExperts(spec, layer); });
}

// What experts of the model's layers have lies in slots.
void PutInSlots(const files::ModelConfig& config, int slots,
                std::vector<weights::ParamSpec>* specs) {
  for (int layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layers[static_cast<size_t>(layer)].experts) continue;
    for (weights::ParamSpec& spec : *specs) {
      if (!IsOfExperts(spec, layer)) continue;
      for (int slot = 0; slot < slots; ++slot) {
        spec.slot_experts.push_back(slot % config.experts.count);
      }
    }
  }
}

weights::PlanOptions PlanOptionsOf(const files::ModelFiles& files, DType activation) {
  const auto naming = files.is_gguf ? weights::Naming::kGguf : weights::Naming::kHuggingFace;
  return {.naming = naming, .activation = activation, .quantization = files.config.quantization};
}

// Whether a group's attention has an implementation, which goes to the records where there are any.
Status BindAttention(const files::ModelConfig& config, const ops::OpTable& table,
                     const ModelOptions& options, const batch::KvGroup& group,
                     std::vector<ops::BindRecord>* records) {
  if (config.latent.kv_rank > 0) {
    const auto desc = layers::LatentAttentionDesc(config, options, group);
    return ops::Bind<ops::LatentAttention>(table, desc, records).status();
  }
  // A head's layer stands behind the model's, and is like any other.
  const auto front = static_cast<size_t>(group.layers.front());
  const bool rope =
      (front < config.layers.size() ? config.layers[front] : files::LayerConfig()).use_rope;
  const auto desc = layers::AttentionDesc(config, options, group, rope);
  return ops::Bind<ops::Attention>(table, desc, records).status();
}

// A config that denies biases goes before a checkpoint that has them, as in transformers, but where
// it does so by mistake the model answers nonsense.
void TellOfUnusedBiases(const weights::WeightPlan& plan) {
  const std::vector<std::string> unused = weights::UnusedBiases(plan);
  if (unused.empty()) return;
  LogWarning("the checkpoint has ", unused.size(), " biases, ", Quote(unused.front()),
             unused.size() > 1 ? " among them, " : ", ",
             "that its config says the model has not; they are left out");
}

// One load of what lies in two memories, for whoever is told of it.
weights::Progress Behind(size_t before, size_t all, const weights::Progress& progress) {
  if (!progress) return {};
  return [=](size_t done, size_t) { progress(before + done, all); };
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
                                        int mtp_heads, int expert_slots,
                                        std::span<const int> host_layers) {
  std::vector<weights::ParamSpec> specs = Params(files.config, mtp_heads, expert_slots);
  std::erase_if(specs, [&](const auto& spec) { return IsOfExperts(spec, host_layers); });
  return weights::PlanWeights(specs, *files.tensors, device, PlanOptionsOf(files, activation));
}

Result<weights::WeightPlan> PlanHostExperts(const files::ModelFiles& files,
                                            const device::Device& host,
                                            std::span<const int> host_layers) {
  std::vector<weights::ParamSpec> specs = Params(files.config);
  std::erase_if(specs, [&](const auto& spec) { return !IsOfExperts(spec, host_layers); });
  return weights::PlanWeights(specs, *files.tensors, host,
                              PlanOptionsOf(files, host.facts().activation));
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
      if (config.linear.step_rank > 0) {
        const auto scan = layers::SelectiveScanDesc(config, options, group);
        SLUICE_RETURN_IF_ERROR(
            ops::Bind<ops::SelectiveScan>(device.ops(), scan, &records).status());
      } else if (config.linear.mamba || conv.kernel == 0) {
        const auto ssd = layers::SsdDesc(config, options, group);
        SLUICE_RETURN_IF_ERROR(ops::Bind<ops::Ssd>(device.ops(), ssd, &records).status());
      } else if (!conv.gated) {
        const auto delta = layers::GatedDeltaDesc(config, options, group);
        SLUICE_RETURN_IF_ERROR(ops::Bind<ops::GatedDelta>(device.ops(), delta, &records).status());
      }
      continue;
    }
    SLUICE_RETURN_IF_ERROR(BindAttention(config, device.ops(), options, group, &records));
  }
  return records;
}

bool TakesDraftTrees(const files::ModelConfig& config, const device::Device& device,
                     const ModelOptions& options) {
  ModelOptions trees = options;
  trees.draft_trees = true;
  for (const batch::KvGroup& group : LayerGroups(config, trees)) {
    if (group.kind == batch::KvKind::kState) return false;
    if (!BindAttention(config, device.ops(), trees, group, nullptr).ok()) return false;
  }
  return true;
}

size_t WorkspaceBytes(const files::ModelConfig& config, const ModelOptions& options) {
  return layers::Activations::Bytes(config, options);
}

size_t HostExpertBytes(const ModelOptions& options) {
  return layers::HostExperts::DeviceBytes(options);
}

size_t HostExpertBuffers(const files::ModelConfig& config, const ModelOptions& options) {
  return layers::HostExperts::HostBytes(config, options);
}

Result<std::unique_ptr<Model>> LoadModel(const files::ModelConfig& config, weights::WeightPlan plan,
                                         device::Device& device, const ModelOptions& options,
                                         std::optional<weights::WeightPlan> host_plan) {
  CHECK(host_plan.has_value() == !options.host_layers.empty(), options.host_layers.size(),
        " layers on the host");
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
  TellOfUnusedBiases(plan);
  const size_t on_device = plan.bytes, on_host = host_plan ? host_plan->bytes : 0;
  const size_t all = on_device + on_host;
  SLUICE_ASSIGN_OR_RETURN(
      parts.parameters,
      weights::Place(std::move(plan), device, {.progress = Behind(0, all, options.progress)}));
  if (host_plan) {
    if (options.records != nullptr)
      layers::HostExperts::TellOnHost(&host_plan->records, options.records);
    SLUICE_ASSIGN_OR_RETURN(parts.host_parameters,
                            weights::Place(*std::move(host_plan), *options.host,
                                           {.progress = Behind(on_device, all, options.progress)}));
  }
  auto model = config.altup.streams > 0 ? layers::AltUpDecoder::Make(std::move(parts))
                                        : layers::Decoder::Make(std::move(parts));
  if (options.records != nullptr) DropRepeats(options.records);
  return model;
}

}  // namespace sluice::model
