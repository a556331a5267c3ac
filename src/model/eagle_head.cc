#include "model/eagle_head.h"

#include <utility>

#include "model/layers/decoder_params.h"
#include "weights/place.h"

namespace sluice::model {
namespace {

constexpr int kLayer = 0;

}  // namespace

ModelOptions EagleHead::OptionsFor(ModelOptions of_model) {
  of_model.activation = ops::ResidualDType(of_model.activation);
  of_model.mtp_heads = 1;
  return of_model;
}

Result<weights::WeightPlan> EagleHead::PlanWeights(const files::EagleFiles& files,
                                                   const device::Device& device, DType activation) {
  return weights::PlanWeights(layers::EagleParams(files.config), *files.tensors, device,
                              {.naming = weights::Naming::kHuggingFace,
                               .activation = activation,
                               .quantization = files.config.layer.quantization});
}

Result<std::unique_ptr<EagleHead>> EagleHead::Load(const files::EagleConfig& config,
                                                   weights::WeightPlan plan, device::Device& device,
                                                   const ModelOptions& options,
                                                   const Model& target) {
  std::unique_ptr<EagleHead> head(new EagleHead(config, options));
  if (options.records != nullptr)
    options.records->insert(options.records->end(), plan.records.begin(), plan.records.end());
  SLUICE_ASSIGN_OR_RETURN(head->parameters_,
                          weights::Place(std::move(plan), device, {.progress = options.progress}));
  const int64_t positions = Positions(config.layer, options);
  SLUICE_ASSIGN_OR_RETURN(
      head->rope_,
      layers::RopeTable::Make(
          device,
          layers::ComputeRopeFrequencies(config.layer.rope, config.layer.context_length, positions),
          positions));
  SLUICE_RETURN_IF_ERROR(head->Bind(device, target));
  return head;
}

Status EagleHead::Bind(const device::Device& device, const Model& target) {
  files::ModelConfig layer = config_.layer;
  layer.layers.emplace_back();
  const layers::Binder binder{layer, options_, parameters_, device.ops()};
  const weights::ParameterMap& embedding =
      config_.own_embedding ? parameters_ : target.parameters();
  SLUICE_ASSIGN_OR_RETURN(
      embedding_, layers::TokenEmbedding::Make(binder, embedding.Find("embedding")->tensor));
  join_layers_ = layers::FusedLinear::Make(binder, "fc");
  ops::Norm::Desc norm;
  norm.activation = options_.activation;
  norm.hidden = layer.hidden_size;
  norm.eps = layer.norm_eps;
  SLUICE_ASSIGN_OR_RETURN(norm_, binder.Bind<ops::Norm>(norm));
  hidden_weight_ = binder.Get("layers.0.hidden_norm")->tensor;
  token_weight_ = binder.Get("layers.0.token_norm")->tensor;
  SLUICE_ASSIGN_OR_RETURN(attention_, layers::Attention::Make(binder, kLayer, groups_.front(), 0,
                                                              {.rope = rope_.tensor()}));
  SLUICE_ASSIGN_OR_RETURN(
      mlp_norm_, layers::Norm::Make(binder, "layers.0.mlp_norm", layers::Norm::Of::kResidual));
  SLUICE_ASSIGN_OR_RETURN(mlp_,
                          layers::Mlp::Make(binder, "layers.0.mlp.", layer.intermediate_size));
  SLUICE_ASSIGN_OR_RETURN(logits_, layers::LogitsHead::Make(binder, "final_norm"));
  return OkStatus();
}

Status EagleHead::Draft(ForwardContext& context, const DeviceBatch& batch,
                        const ops::Tensor& hidden, const DraftOutputs& outputs) const {
  if (batch.tokens() == 0) return OkStatus();
  device::Stream& stream = *context.stream;
  const int64_t width = config_.layer.hidden_size;
  layers::Activations a = layers::Activations::Slice(context.workspace, config_.layer, options_,
                                                     batch.tokens(), batch.rows());
  if (!outputs.hidden.empty()) a.last = outputs.hidden;
  const auto norm = [&](const ops::Tensor& x, const ops::Tensor& weight, int64_t column) {
    ops::Norm::Args args;
    args.x = x;
    args.weight = weight;
    args.out = a.joined.Columns(column, width);
    return norm_(stream, args);
  };
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, a.hidden));
  SLUICE_RETURN_IF_ERROR(norm(a.hidden, token_weight_, 0));
  ops::Tensor before = hidden;
  if (hidden.dims[1] != width) {
    SLUICE_RETURN_IF_ERROR(join_layers_(stream, hidden, {}, a.hidden));
    before = a.hidden;
  }
  SLUICE_RETURN_IF_ERROR(norm(before, hidden_weight_, width));
  layers::Activations joined = a;
  joined.normed = a.joined;
  SLUICE_RETURN_IF_ERROR(attention_(context, batch, joined, before, a.hidden));
  SLUICE_RETURN_IF_ERROR(mlp_norm_(stream, a));
  SLUICE_RETURN_IF_ERROR(mlp_(context, batch, a, a.hidden, a.hidden));
  return logits_(stream, batch, a, outputs.logits);
}

}  // namespace sluice::model
