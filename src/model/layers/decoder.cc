#include "model/layers/decoder.h"

#include <algorithm>

#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::model::layers {
namespace {

constexpr size_t kBlocksOfLayer = 2;  // a mixer and a feed-forward part

}  // namespace

Result<std::unique_ptr<Model>> Decoder::Make(ModelParts parts) {
  std::unique_ptr<Decoder> model(new Decoder(std::move(parts)));
  const files::ModelConfig& config = model->config_;
  const bool after = files::InfoOf(config.architecture).norms_after;
  CHECK(!(after && config.parallel_residual),
        "blocks in parallel have no norm that adds the first");
  const Binder binder{config, model->options_, model->parameters_, model->device_.ops()};
  SLUICE_ASSIGN_OR_RETURN(model->embedding_,
                          TokenEmbedding::Make(binder, binder.Get("embedding")->tensor));
  SLUICE_RETURN_IF_ERROR(model->MakeRopeTables());
  for (int i = 0; i < config.num_layers; ++i) {
    const auto name = [&](const char* norm) { return StrCat("layers.", i, ".", norm); };
    SLUICE_ASSIGN_OR_RETURN(Body mixer, model->MakeMixer(binder, i));
    SLUICE_RETURN_IF_ERROR(model->AddBlock(binder, name("input_norm"), std::move(mixer),
                                           after ? name("attention_post_norm") : ""));
    SLUICE_ASSIGN_OR_RETURN(Body mlp, model->MakeMlp(binder, i));
    SLUICE_RETURN_IF_ERROR(model->AddBlock(binder, config.parallel_residual ? "" : name("mlp_norm"),
                                           std::move(mlp), after ? name("mlp_post_norm") : ""));
  }
  if (after) {
    SLUICE_ASSIGN_OR_RETURN(model->final_norm_, model->NormOfSum(binder, "final_norm"));
  }
  SLUICE_ASSIGN_OR_RETURN(model->head_, LogitsHead::Make(binder, after ? "" : "final_norm"));
  if (model->options_.mtp_head) {
    const int group = model->group_of(config.num_layers);
    SLUICE_ASSIGN_OR_RETURN(
        model->mtp_head_, MtpHead::Make(binder, model->groups_[group], group, model->rope_.tensor(),
                                        model->embedding_));
  }
  return std::unique_ptr<Model>(std::move(model));
}

Status Decoder::MakeRopeTables() {
  const int64_t positions = options_.max_model_len;
  const auto table = [&](const files::RopeConfig& rope) {
    return RopeTable::Make(device_, ComputeRopeFrequencies(rope, config_.context_length, positions),
                           positions);
  };
  SLUICE_ASSIGN_OR_RETURN(rope_, table(config_.rope));
  const bool local = std::any_of(config_.layers.begin(), config_.layers.end(),
                                 [](const files::LayerConfig& layer) { return layer.local_rope; });
  if (local) {
    SLUICE_ASSIGN_OR_RETURN(local_rope_, table(config_.local_rope));
  }
  return OkStatus();
}

Result<Decoder::Body> Decoder::MakeMixer(const Binder& binder, int layer) const {
  const files::LayerConfig& config = config_.layers[layer];
  const int index = group_of(layer);
  if (config.kind == files::LayerKind::kLinear) {
    SLUICE_ASSIGN_OR_RETURN(GatedDeltaNet net,
                            GatedDeltaNet::Make(binder, layer, groups_[index], index));
    return Body(std::move(net));
  }
  ops::Tensor rope;
  if (config.use_rope) rope = config.local_rope ? local_rope_.tensor() : rope_.tensor();
  SLUICE_ASSIGN_OR_RETURN(Attention attention,
                          Attention::Make(binder, layer, groups_[index], index, rope));
  return Body(std::move(attention));
}

Result<Decoder::Body> Decoder::MakeMlp(const Binder& binder, int layer) const {
  if (config_.layers[layer].experts) {
    SLUICE_ASSIGN_OR_RETURN(ExpertMlp experts, ExpertMlp::Make(binder, layer));
    return Body(std::move(experts));
  }
  SLUICE_ASSIGN_OR_RETURN(GatedMlp mlp, GatedMlp::Make(binder, layer));
  return Body(std::move(mlp));
}

Status Decoder::AddBlock(const Binder& binder, const std::string& before, Body body,
                         const std::string& after) {
  Block block;
  block.body = std::move(body);
  if (!before.empty()) {
    SLUICE_ASSIGN_OR_RETURN(block.before, NormOfSum(binder, before));
  }
  if (!after.empty()) {
    SLUICE_ASSIGN_OR_RETURN(block.after, Norm::Make(binder, after, Norm::Of::kBranch));
  }
  blocks_.push_back(std::move(block));
  return OkStatus();
}

Result<Norm> Decoder::NormOfSum(const Binder& binder, const std::string& name) const {
  const bool added = blocks_.empty() || !blocks_.back().after.bound();
  return Norm::Make(binder, name, added ? Norm::Of::kResidual : Norm::Of::kSum);
}

Status Decoder::Forward(ForwardContext& context, const DeviceBatch& batch,
                        const Outputs& outputs) const {
  if (batch.tokens() == 0) return OkStatus();
  device::Stream& stream = *context.stream;
  Activations a =
      Activations::Slice(context.workspace, config_, options_, batch.tokens(), batch.rows());
  if (!outputs.hidden.empty()) a.hidden = outputs.hidden;
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, a.hidden));
  const ops::Tensor residual = a.hidden;
  std::span<const int> wanted = outputs.layers;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    if (block.before.bound()) SLUICE_RETURN_IF_ERROR(block.before(stream, a));
    const bool adds = !block.after.bound();
    // Where hidden states of a layer are wanted its last block leaves them, and the block behind
    // reads them there.
    ops::Tensor sum = residual;
    if (!wanted.empty() && i + 1 == kBlocksOfLayer * (wanted.front() + size_t{1})) {
      CHECK(adds, "hidden states of a layer with a norm behind it");
      const size_t number = outputs.layers.size() - wanted.size();
      sum = outputs.layers_hidden.Columns(static_cast<int64_t>(number) * config_.hidden_size,
                                          config_.hidden_size);
      wanted = wanted.subspan(1);
    }
    SLUICE_RETURN_IF_ERROR(std::visit(
        [&](const auto& body) {
          return body(context, batch, a, adds ? a.hidden : ops::Tensor(), adds ? sum : a.branch);
        },
        block.body));
    if (adds) a.hidden = sum;
    if (!adds) SLUICE_RETURN_IF_ERROR(block.after(stream, a));
  }
  if (final_norm_.bound()) SLUICE_RETURN_IF_ERROR(final_norm_(stream, a));
  return head_(stream, batch, a, outputs.logits);
}

Status Decoder::Draft(ForwardContext& context, const DeviceBatch& batch, const ops::Tensor& hidden,
                      const DraftOutputs& outputs) const {
  CHECK(mtp_head_ != nullptr, "the model was loaded without its head");
  if (batch.tokens() == 0) return OkStatus();
  Activations a =
      Activations::Slice(context.workspace, config_, options_, batch.tokens(), batch.rows());
  return (*mtp_head_)(context, batch, hidden, &a, outputs);
}

}  // namespace sluice::model::layers
