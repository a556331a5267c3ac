#include "model/layers/decoder.h"

#include <algorithm>

#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::model::layers {
Result<std::unique_ptr<Model>> Decoder::Make(ModelParts parts) {
  std::unique_ptr<Decoder> model(new Decoder(std::move(parts)));
  const files::ModelConfig& config = model->config_;
  const files::ArchitectureInfo& info = files::InfoOf(config.architecture);
  const bool after = info.norm_places != files::NormPlaces::kBefore;
  CHECK(!(after && config.parallel_residual),
        "blocks in parallel have no norm that adds the first");
  CHECK(!(config.parallel_norms && config.experts.count > 0),
        "experts keep what waits to be added in the same memory");
  Binder binder{config, model->options_, model->parameters_, model->device_.ops()};
  if (!model->options_.host_layers.empty()) {
    SLUICE_ASSIGN_OR_RETURN(model->host_experts_,
                            HostExperts::Make(model->device_, binder, model->host_parameters_));
    binder.host_experts = model->host_experts_.get();
  }
  SLUICE_ASSIGN_OR_RETURN(model->embedding_,
                          TokenEmbedding::Make(binder, binder.Get("embedding")->tensor));
  if (config.embedding_norm) {
    SLUICE_ASSIGN_OR_RETURN(model->embedding_norm_,
                            Norm::Make(binder, "embedding_norm", Norm::Of::kStream));
  }
  if (config.layer_inputs.width > 0) {
    SLUICE_ASSIGN_OR_RETURN(model->layer_inputs_, LayerInputs::Make(binder));
  }
  SLUICE_ASSIGN_OR_RETURN(model->rope_, RopeTables::Make(config, model->options_, model->device_));
  SLUICE_RETURN_IF_ERROR(model->MakeHeadVectors());
  for (int i = 0; i < config.num_layers; ++i) SLUICE_RETURN_IF_ERROR(model->AddLayer(binder, i));
  model->adds_to_normed_ = info.adds_to_normed;
  model->branch_is_free_ =
      !after && !config.parallel_norms && config.experts.shared_width == 0 && !config.pooling;
  SLUICE_RETURN_IF_ERROR(model->WireCodes(binder));
  model->WireChains(binder);
  SLUICE_RETURN_IF_ERROR(model->MakeEnd(binder));
  for (int head = 0; head < model->options_.mtp_heads; ++head) {
    const int layer = config.num_layers + head, group = model->group_of(layer);
    SLUICE_ASSIGN_OR_RETURN(model->mtp_heads_.emplace_back(),
                            MtpHead::Make(binder, layer, model->groups_[group], group,
                                          model->rope_.model.tensor(), model->embedding_));
  }
  return std::unique_ptr<Model>(std::move(model));
}

Status Decoder::AddLayer(const Binder& binder, int layer) {
  const files::ArchitectureInfo& info = files::InfoOf(config_.architecture);
  const auto name = [&](const char* norm, bool there) {
    return there ? StrCat("layers.", layer, ".", norm) : "";
  };
  // The norm of the embedding is the first one's.
  const bool before = info.norm_places != files::NormPlaces::kAfter &&
                      !(layer == 0 && config_.embedding_norm && info.encoder);
  const bool after = info.norm_places != files::NormPlaces::kBefore;
  Norm norm;
  if (!config_.BesideLast(layer)) {
    SLUICE_ASSIGN_OR_RETURN(norm, NormOfSum(binder, name("input_norm", before)));
  }
  SLUICE_ASSIGN_OR_RETURN(Body mixer, MakeMixer(binder, layer));
  SLUICE_RETURN_IF_ERROR(
      AddBlock(binder, std::move(norm), std::move(mixer), name("attention_post_norm", after)));
  blocks_.back().ends_layer =
      config_.layers[layer].mlp && config_.StoredMlp(layer) != config_.StoredMixer(layer);
  SLUICE_ASSIGN_OR_RETURN(blocks_.back().keep, KeptNorm(binder, layer, "input_norm_kept",
                                                        config_.layers[layer].mixer_residual));
  SLUICE_RETURN_IF_ERROR(AddFeedForward(binder, layer));
  SLUICE_RETURN_IF_ERROR(AddLayerInput(binder, layer));
  const bool last = layer + 1 == config_.num_layers;
  blocks_.back().ends_layer = last || config_.StoredMixer(layer + 1) != config_.StoredMlp(layer);
  return OkStatus();
}

Status Decoder::AddFeedForward(const Binder& binder, int layer) {
  if (!config_.layers[layer].mlp) return OkStatus();
  const files::NormPlaces places = files::InfoOf(config_.architecture).norm_places;
  const bool after = places != files::NormPlaces::kBefore;
  const auto name = [&](const char* norm, bool there) {
    return there ? StrCat("layers.", layer, ".", norm) : "";
  };
  Norm norm;
  if (config_.parallel_norms) {
    blocks_.back().waits = true;
    SLUICE_ASSIGN_OR_RETURN(norm, Norm::Make(binder, name("mlp_norm", true), Norm::Of::kResidual));
  } else if (!config_.parallel_residual) {
    SLUICE_ASSIGN_OR_RETURN(
        norm, NormOfSum(binder, name("mlp_norm", places != files::NormPlaces::kAfter)));
  }
  SLUICE_ASSIGN_OR_RETURN(Body mlp, MakeMlp(binder, layer));
  SLUICE_RETURN_IF_ERROR(
      AddBlock(binder, std::move(norm), std::move(mlp), name("mlp_post_norm", after)));
  SLUICE_ASSIGN_OR_RETURN(blocks_.back().keep, KeptNorm(binder, layer, "mlp_norm_kept",
                                                        config_.layers[layer].mlp_residual));
  if (!config_.layers[layer].experts || config_.experts.shared_width == 0) return OkStatus();
  CHECK(!after, "a shared expert reads what the router reads, and adds what it gives");
  SLUICE_ASSIGN_OR_RETURN(Body shared, MakeSharedExpert(binder, layer));
  return AddBlock(binder, Norm(), std::move(shared), "");
}

Status Decoder::AddLayerInput(const Binder& binder, int layer) {
  if (config_.layer_inputs.width == 0) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(Norm sum, NormOfSum(binder, ""));
  SLUICE_ASSIGN_OR_RETURN(LayerInput input, LayerInput::Make(binder, layer));
  return AddBlock(binder, std::move(sum), Body(std::move(input)),
                  StrCat("layers.", layer, ".layer_input_post_norm"));
}

Status Decoder::WireCodes(const Binder& binder) {
  const auto reads = [](const Block& block) {
    return std::visit(
        []<class Body>(const Body& body) {
          if constexpr (requires { body.reads(); }) return body.reads();
          return RowsRead();
        },
        block.body);
  };
  if (adds_to_normed_) return OkStatus();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i].before.bound()) continue;
    RowsRead all = reads(blocks_[i]);
    for (size_t j = i + 1; j < blocks_.size() && !blocks_[j].before.bound(); ++j) {
      const RowsRead more = reads(blocks_[j]);
      all = {.plain = all.plain || more.plain, .codes = all.codes || more.codes};
    }
    if (!all.codes) continue;
    // Where routers and shared experts read the same rows, no one writes branch before them.
    const bool both = std::holds_alternative<ExpertMlp>(blocks_[i].body) &&
                      blocks_[i].before.of() == Norm::Of::kResidual;
    if (all.plain && !both) continue;
    SLUICE_RETURN_IF_ERROR(
        blocks_[i].before.Give(binder, all.plain ? ops::RowForm::kBoth : ops::RowForm::kCodes));
  }
  return OkStatus();
}

void Decoder::WireChains(const Binder& binder) {
  const files::ArchitectureInfo& info = files::InfoOf(config_.architecture);
  const bool plain = info.norm_places == files::NormPlaces::kBefore &&
                     info.norm == files::ModelNorm::kRms && branch_is_free_ && !adds_to_normed_ &&
                     !config_.parallel_residual && config_.layer_inputs.width == 0;
  if (!plain || blocks_.size() != 2 * static_cast<size_t>(config_.num_layers)) return;
  const auto attends = [&](size_t i) {
    const Block& block = blocks_[i];
    const auto* const attention = std::get_if<Attention>(&block.body);
    return attention != nullptr && attention->halves() && block.before.bound() &&
           !block.keep.bound();
  };
  for (size_t i = 0; i < blocks_.size(); i += 2) {
    const Block& behind = blocks_[i + 1];
    const bool last = i + 2 == blocks_.size();
    if (!attends(i) || !(last || attends(i + 2))) continue;
    if (!behind.before.bound() || behind.keep.bound()) continue;
    const int layer = static_cast<int>(i / 2);
    if (config_.layers[layer].gate_deviations) continue;
    if (std::holds_alternative<Mlp>(behind.body))
      blocks_[i].chain = Chain::Make(binder, layer, !last);
    if (const auto* const experts = std::get_if<ExpertMlp>(&behind.body))
      blocks_[i].chain = Chain::MakeOfExperts(binder, layer, !last, experts->counts_row());
  }
}

Status Decoder::MakeEnd(const Binder& binder) {
  // A head of logits norms the rows that it needs, where nothing is to be added first.
  const bool all_rows = blocks_.back().after.bound() || config_.parallel_norms || config_.pooling;
  if (all_rows) {
    SLUICE_ASSIGN_OR_RETURN(final_norm_, NormOfSum(binder, "final_norm"));
  }
  if (config_.pooling) {
    SLUICE_ASSIGN_OR_RETURN(pooling_, Pooling::Make(binder));
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(head_, LogitsHead::Make(binder, all_rows ? "" : "final_norm"));
  return OkStatus();
}

Status Decoder::MakeHeadVectors() {
  if (!config_.alibi_slopes.empty()) {
    SLUICE_ASSIGN_OR_RETURN(slopes_, HeadVector::Make(device_, config_.alibi_slopes));
  }
  const bool scans = config_.linear.scan_norms == files::ScanNorms::kPlain;
  if (config_.qk_norm == files::QkNormKind::kHeadPlain || scans ||
      files::InfoOf(config_.architecture).v_norm) {
    int widest = config_.head_dim;
    if (scans) widest = std::max({widest, config_.linear.step_rank, config_.linear.key_head_dim});
    for (const files::LayerConfig& layer : config_.layers)
      widest = std::max(widest, config_.head_dim_of(layer));
    const std::vector<float> ones(static_cast<size_t>(widest), 1.0f);
    SLUICE_ASSIGN_OR_RETURN(ones_, HeadVector::Make(device_, ones));
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
  if (config.kind == files::LayerKind::kShortConv) {
    SLUICE_ASSIGN_OR_RETURN(GatedConv conv, GatedConv::Make(binder, layer, groups_[index], index));
    return Body(std::move(conv));
  }
  if (config.kind == files::LayerKind::kMamba && config_.linear.step_rank > 0) {
    SLUICE_ASSIGN_OR_RETURN(FirstMamba mamba,
                            FirstMamba::Make(binder, layer, groups_[index], index, ones_.tensor()));
    return Body(std::move(mamba));
  }
  if (config.kind == files::LayerKind::kMamba) {
    SLUICE_ASSIGN_OR_RETURN(Mamba mamba, Mamba::Make(binder, layer, groups_[index], index));
    return Body(std::move(mamba));
  }
  if (config.kind == files::LayerKind::kLightning) {
    SLUICE_ASSIGN_OR_RETURN(
        LightningAttention attention,
        LightningAttention::Make(binder, layer, groups_[index], index, device_));
    return Body(std::move(attention));
  }
  const ops::Tensor rope = rope_.Of(config);
  if (config_.latent.kv_rank > 0) {
    SLUICE_ASSIGN_OR_RETURN(LatentAttention latent,
                            LatentAttention::Make(binder, layer, groups_[index], index, rope));
    return Body(std::move(latent));
  }
  SLUICE_ASSIGN_OR_RETURN(Attention attention,
                          Attention::Make(binder, layer, groups_[index], index,
                                          {rope, slopes_.tensor(), ones_.tensor()}));
  return Body(std::move(attention));
}

Result<Decoder::Body> Decoder::MakeMlp(const Binder& binder, int layer) const {
  if (config_.layers[layer].experts && config_.experts.beside_dense) {
    SLUICE_ASSIGN_OR_RETURN(DenseAndExperts both, DenseAndExperts::Make(binder, layer));
    return Body(std::move(both));
  }
  if (config_.layers[layer].experts) {
    SLUICE_ASSIGN_OR_RETURN(ExpertMlp experts, ExpertMlp::Make(binder, layer));
    return Body(std::move(experts));
  }
  SLUICE_ASSIGN_OR_RETURN(Mlp mlp, Mlp::Make(binder, StrCat("layers.", layer, ".mlp."),
                                             config_.mlp_width_of(config_.layers[layer])));
  return Body(std::move(mlp));
}

Result<Decoder::Body> Decoder::MakeSharedExpert(const Binder& binder, int layer) const {
  if (config_.experts.shared_gate) {
    SLUICE_ASSIGN_OR_RETURN(SharedExpert shared, SharedExpert::Make(binder, layer));
    return Body(std::move(shared));
  }
  SLUICE_ASSIGN_OR_RETURN(Mlp mlp, Mlp::Make(binder, StrCat("layers.", layer, ".shared."),
                                             config_.experts.shared_width));
  return Body(std::move(mlp));
}

Status Decoder::AddBlock(const Binder& binder, Norm before, Body body, const std::string& after) {
  Block block;
  block.before = std::move(before);
  block.body = std::move(body);
  if (!after.empty()) {
    SLUICE_ASSIGN_OR_RETURN(block.after, Norm::Make(binder, after, Norm::Of::kBranch));
  }
  blocks_.push_back(std::move(block));
  return OkStatus();
}

Result<Norm> Decoder::KeptNorm(const Binder& binder, int layer, const char* name,
                               float factor) const {
  if (factor == 0.0f) return Norm();
  return Norm::Make(binder, StrCat("layers.", layer, ".", name), Norm::Of::kStream);
}

Result<Norm> Decoder::NormOfSum(const Binder& binder, const std::string& name) const {
  const bool added = blocks_.empty() || !(blocks_.back().after.bound() || config_.parallel_norms);
  if (added) return Norm::Make(binder, name, Norm::Of::kResidual);
  ops::Tensor scale;
  if (blocks_.back().ends_layer && files::InfoOf(config_.architecture).layer_scales) {
    const auto layers = std::count_if(blocks_.begin(), blocks_.end(),
                                      [](const Block& block) { return block.ends_layer; });
    scale = binder.Get(StrCat("layers.", layers - 1, ".scale"))->tensor;
  }
  return Norm::Make(binder, name, Norm::Of::kSum, scale);
}

Status Decoder::Forward(ForwardContext& context, const DeviceBatch& batch,
                        const Outputs& outputs) const {
  if (batch.tokens() == 0) return OkStatus();
  device::Stream& stream = *context.stream;
  Activations a =
      Activations::Slice(context.workspace, config_, options_, batch.tokens(), batch.rows());
  if (!outputs.hidden.empty()) a.hidden = outputs.hidden;
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, a.hidden));
  if (embedding_norm_.bound()) SLUICE_RETURN_IF_ERROR(embedding_norm_(stream, a));
  if (layer_inputs_.bound()) SLUICE_RETURN_IF_ERROR(layer_inputs_(stream, batch, a));
  Pass pass = {.a = a,
               .home = a.hidden,
               .takes_turns = branch_is_free_ && a.branch.dtype == a.hidden.dtype,
               .wanted = outputs.layers};
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i].chain.Takes(batch.tokens())) {
      SLUICE_RETURN_IF_ERROR(RunBlock(context, batch, outputs, blocks_[i], pass));
    } else {
      SLUICE_RETURN_IF_ERROR(RunChain(context, batch, outputs, i++, pass));
    }
  }
  if (final_norm_.bound()) SLUICE_RETURN_IF_ERROR(final_norm_(stream, a));
  if (config_.pooling) return pooling_(stream, batch, a, outputs.vectors);
  return head_(stream, batch, a, outputs.logits);
}

ops::Tensor Decoder::SumOf(const Block& block, const ops::Tensor& from, const Outputs& outputs,
                           Pass& pass) const {
  // Where hidden states of a layer are wanted its last block leaves them, and the block behind
  // reads them there. Else blocks take turns with branch's memory where they may: products that
  // don't write what they add are faster on some devices.
  ops::Tensor sum = pass.home;
  if (pass.takes_turns && from.data == pass.home.data && &block != &blocks_.back())
    sum = pass.a.branch;
  if (!block.ends_layer || pass.wanted.empty() || pass.layer != pass.wanted.front()) return sum;
  CHECK(!block.after.bound() && !block.waits, "hidden states of a layer with a norm behind it");
  const size_t number = outputs.layers.size() - pass.wanted.size();
  pass.wanted = pass.wanted.subspan(1);
  return outputs.layers_hidden.Columns(static_cast<int64_t>(number) * config_.hidden_size,
                                       config_.hidden_size);
}

Status Decoder::RunBlock(ForwardContext& context, const DeviceBatch& batch, const Outputs& outputs,
                         const Block& block, Pass& pass) const {
  device::Stream& stream = *context.stream;
  Activations& a = pass.a;
  pass.projected = false;
  if (block.before.bound()) {
    a.normed_codes = block.before.CodesOf(a);
    SLUICE_RETURN_IF_ERROR(block.before(stream, a));
  }
  if (block.keep.bound()) SLUICE_RETURN_IF_ERROR(block.keep(stream, a));
  const bool adds = !block.after.bound() && !block.waits;
  const ops::Tensor sum = SumOf(block, a.hidden, outputs, pass);
  SLUICE_RETURN_IF_ERROR(std::visit(
      [&](const auto& body) {
        const ops::Tensor& residual = adds_to_normed_ ? a.normed : a.hidden;
        return body(context, batch, a, adds ? residual : ops::Tensor(), adds ? sum : a.branch);
      },
      block.body));
  if (adds) a.hidden = sum;
  if (block.ends_layer) ++pass.layer;
  return block.after.bound() ? block.after(stream, a) : OkStatus();
}

Status Decoder::RunChain(ForwardContext& context, const DeviceBatch& batch, const Outputs& outputs,
                         size_t number, Pass& pass) const {
  const Block &block = blocks_[number], &behind = blocks_[number + 1];
  Activations& a = pass.a;
  if (!pass.projected) {
    a.normed_codes = block.before.CodesOf(a);
    SLUICE_RETURN_IF_ERROR(block.before(*context.stream, a));
  }
  SLUICE_RETURN_IF_ERROR(std::get<Attention>(block.body).Mix(context, batch, a, pass.projected));
  const ops::Tensor middle = SumOf(block, a.hidden, outputs, pass);
  const ops::Tensor sum = SumOf(behind, middle, outputs, pass);
  SLUICE_RETURN_IF_ERROR(block.chain(context, batch, a, middle, sum));
  a.hidden = sum;
  ++pass.layer;
  pass.projected = block.chain.has_next();
  return OkStatus();
}

Status Decoder::Draft(ForwardContext& context, const DeviceBatch& batch, const ops::Tensor& hidden,
                      const DraftOutputs& outputs, int head) const {
  CHECK(head >= 0 && head < options_.mtp_heads, "head ", head, " of ", options_.mtp_heads);
  if (batch.tokens() == 0) return OkStatus();
  Activations a =
      Activations::Slice(context.workspace, config_, options_, batch.tokens(), batch.rows());
  return (*mtp_heads_[static_cast<size_t>(head)])(context, batch, hidden, &a, outputs);
}

}  // namespace sluice::model::layers
