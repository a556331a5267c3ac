#include "model/eagle/eagle_head.h"

#include <string>
#include <utility>

#include "base/str_cat.h"
#include "device/alignment.h"
#include "device/part.h"
#include "model/layers/decoder_params.h"
#include "weights/place.h"

namespace sluice::model {

ModelOptions EagleHead::OptionsFor(ModelOptions of_model, files::EagleForm form) {
  if (files::ReadsLayers(form)) of_model.activation = ops::ResidualDType(of_model.activation);
  of_model.mtp_heads = 0;
  of_model.joins_hidden = true;
  of_model.sees_behind = form == files::EagleForm::kDiffusion;
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
  if (config.form == files::EagleForm::kParallel) {
    const layers::Binder binder{head->config_.layer, head->options_, head->parameters_,
                                device.ops()};
    SLUICE_RETURN_IF_ERROR(head->MakeMask(binder, device));
  }
  return head;
}

size_t EagleHead::Carve(const device::View& view, const files::EagleConfig& config,
                        const ModelOptions& options, Mask* mask) {
  if (config.form != files::EagleForm::kParallel) return 0;
  const DType type = ops::ResidualDType(options.activation);
  const int64_t width = config.layer.hidden_size;
  const size_t states = device::AlignUp(RowBytes(type, static_cast<size_t>(width)));
  if (mask != nullptr) {
    mask->states = ops::Dense(view, type, {1, width});
    mask->rows = ops::Dense(device::Behind(view, states), DType::kI32, {options.max_tokens});
  }
  return states + RowBytes(DType::kI32, static_cast<size_t>(options.max_tokens));
}

size_t EagleHead::DeviceBytes(const files::EagleConfig& config, const ModelOptions& options) {
  return Carve({}, config, options, nullptr);
}

Status EagleHead::MakeMask(const layers::Binder& binder, device::Device& device) {
  constexpr auto memory = device::MemoryKind::kDevice;
  SLUICE_ASSIGN_OR_RETURN(mask_memory_, device.Allocate(DeviceBytes(config_, options_), memory));
  Carve(mask_memory_.view(), config_, options_, &mask_);
  const ops::Tensor& table = binder.Get("mask_hidden")->tensor;
  const DType type = mask_.states.dtype;
  SLUICE_ASSIGN_OR_RETURN(
      const auto read,
      binder.Bind<ops::Embedding>(
          {.table = table.dtype, .activation = type, .vocab = 1, .hidden = config_.read_width()}));
  SLUICE_ASSIGN_OR_RETURN(
      gather_, binder.Bind<ops::GatherRows>({.activation = type, .width = mask_.states.dims[1]}));
  SLUICE_ASSIGN_OR_RETURN(
      const device::Buffer joined,
      device.Allocate(RowBytes(type, static_cast<size_t>(config_.read_width())), memory));
  const ops::Tensor row = ops::Dense(joined.view(), type, {1, config_.read_width()});
  std::vector<int32_t> zeros(static_cast<size_t>(options_.max_tokens));
  const size_t bytes = zeros.size() * sizeof(int32_t);
  const device::CopyItem item = {{mask_.rows.data, bytes, mask_.rows.memory, mask_.rows.device},
                                 {reinterpret_cast<std::byte*>(zeros.data()), bytes,
                                  device::MemoryKind::kHost, device::DeviceId()}};
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  SLUICE_RETURN_IF_ERROR(device.Copy(*stream, {&item, 1}));
  SLUICE_RETURN_IF_ERROR(read(*stream, {.ids = mask_.rows.Rows(0, 1), .table = table, .out = row}));
  SLUICE_RETURN_IF_ERROR(NormRead(*stream, row));
  SLUICE_RETURN_IF_ERROR(join_(*stream, row, {}, mask_.states));
  return stream->Synchronize();
}

Status EagleHead::Bind(const device::Device& device, const Model& target) {
  const files::ModelConfig& layer = config_.layer;
  const layers::Binder binder{layer, options_, parameters_, device.ops()};
  const weights::ParameterMap& embedding =
      config_.own_embedding ? parameters_ : target.parameters();
  SLUICE_ASSIGN_OR_RETURN(
      embedding_, layers::TokenEmbedding::Make(binder, embedding.Find("embedding")->tensor));
  join_ = layers::FusedLinear::Make(binder, "fc");
  constexpr auto residual = layers::Norm::Of::kResidual;
  for (int i = 0; i < layer.num_layers; ++i) {
    const std::string prefix = StrCat("layers.", i, ".");
    Layer& made = layers_.emplace_back();
    if (!third() || i > 0) {
      const bool named = i > 0 || config_.form == files::EagleForm::kDiffusion ||
                         !config_.added_norms.first_layer.empty();
      const std::string norm = named ? prefix + "input_norm" : "";
      SLUICE_ASSIGN_OR_RETURN(made.input_norm, layers::Norm::Make(binder, norm, residual));
    }
    SLUICE_ASSIGN_OR_RETURN(made.attention, layers::Attention::Make(binder, i, groups_.front(), 0,
                                                                    {.rope = rope_.tensor()}));
    SLUICE_ASSIGN_OR_RETURN(made.mlp_norm,
                            layers::Norm::Make(binder, prefix + "mlp_norm", residual));
    SLUICE_ASSIGN_OR_RETURN(made.mlp,
                            layers::Mlp::Make(binder, prefix + "mlp.", layer.intermediate_size));
  }
  if (config_.form == files::EagleForm::kDiffusion) return BindDiffusion(binder, device, target);
  return third() ? BindThird(binder) : BindFirst(binder, device, target);
}

Status EagleHead::BindFirst(const layers::Binder& binder, const device::Device& device,
                            const Model& target) {
  const layers::Binder of_model{target.config(), options_, target.parameters(), device.ops()};
  constexpr auto residual = layers::Norm::Of::kResidual;
  const auto& [embedding, states, first_layer, output] = config_.added_norms;
  const std::string of_token = embedding.empty() ? "" : "token_norm";
  const std::string of_hidden = states.empty() ? "" : "hidden_norm";
  SLUICE_ASSIGN_OR_RETURN(token_norm_, layers::Norm::Make(binder, of_token, residual));
  SLUICE_ASSIGN_OR_RETURN(hidden_norm_, layers::Norm::Make(binder, of_hidden, residual));
  SLUICE_ASSIGN_OR_RETURN(model_norm_, layers::Norm::Make(of_model, "final_norm", residual));
  if (!states.empty()) {
    SLUICE_ASSIGN_OR_RETURN(states_norm_,
                            layers::Norm::Make(binder, of_hidden, layers::Norm::Of::kNormed));
  }
  const std::string of_output = output.empty() ? "" : "output_norm";
  SLUICE_ASSIGN_OR_RETURN(logits_, layers::LogitsHead::Make(binder, of_output, of_model));
  return OkStatus();
}

Status EagleHead::BindThird(const layers::Binder& binder) {
  constexpr auto residual = layers::Norm::Of::kResidual;
  SLUICE_ASSIGN_OR_RETURN(token_norm_, layers::Norm::Make(binder, "layers.0.token_norm", residual));
  SLUICE_ASSIGN_OR_RETURN(hidden_norm_,
                          layers::Norm::Make(binder, "layers.0.hidden_norm", residual));
  SLUICE_ASSIGN_OR_RETURN(copy_, layers::Norm::Make(binder, "", residual));
  const int norms = config_.read_norms();
  for (int i = 0; i < norms; ++i)
    read_norms_.push_back(binder.Get(StrCat("read_norm.", i))->tensor);
  if (norms > 0) {
    SLUICE_ASSIGN_OR_RETURN(
        read_norm_, binder.Bind<ops::Norm>({.activation = ops::ResidualDType(options_.activation),
                                            .hidden = config_.read_width() / norms,
                                            .eps = config_.layer.norm_eps}));
  }
  if (config_.norm_output) {
    SLUICE_ASSIGN_OR_RETURN(output_norm_,
                            layers::Norm::Make(binder, "final_norm", layers::Norm::Of::kStream));
  }
  SLUICE_ASSIGN_OR_RETURN(logits_, layers::LogitsHead::Make(binder, "final_norm"));
  return OkStatus();
}

Status EagleHead::NormRead(device::Stream& stream, const ops::Tensor& hidden) const {
  const auto count = static_cast<int64_t>(read_norms_.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t width = config_.read_width() / count;
    const ops::Tensor part = hidden.Columns(i * width, width);
    SLUICE_RETURN_IF_ERROR(read_norm_(stream, {.x = part, .weight = read_norms_[i], .out = part}));
  }
  return OkStatus();
}

Result<ops::Tensor> EagleHead::Join(device::Stream& stream, const DeviceBatch& batch,
                                    const ops::Tensor& hidden, Of of,
                                    const layers::Activations& a) const {
  const int64_t width = config_.layer.hidden_size;
  const auto into_joined = [&](const layers::Norm& norm, const ops::Tensor& x, int64_t column) {
    layers::Activations part = a;
    part.hidden = x;
    part.normed = a.joined.Columns(column, width);
    return norm(stream, part);
  };
  SLUICE_RETURN_IF_ERROR(embedding_(stream, batch, a.hidden));
  SLUICE_RETURN_IF_ERROR(into_joined(token_norm_, a.hidden, 0));
  ops::Tensor residual = of == Of::kItself ? hidden : a.hidden;
  if (of == Of::kMask) {
    const ops::Tensor rows = mask_.rows.Rows(0, batch.tokens());
    SLUICE_RETURN_IF_ERROR(gather_(stream, {mask_.states, rows, a.hidden}));
  } else if (of == Of::kModel && third()) {
    SLUICE_RETURN_IF_ERROR(NormRead(stream, hidden));
    SLUICE_RETURN_IF_ERROR(join_(stream, hidden, {}, a.hidden));
  } else {
    residual = hidden;
  }
  if (of == Of::kItself && output_norm_.bound()) {
    layers::Activations part = a;
    part.hidden = hidden;
    SLUICE_RETURN_IF_ERROR(output_norm_(stream, part));
  }
  const bool models_norm = !third() && of == Of::kModel;
  SLUICE_RETURN_IF_ERROR(into_joined(models_norm ? model_norm_ : hidden_norm_, residual, width));
  if (models_norm && states_norm_.bound())
    SLUICE_RETURN_IF_ERROR(into_joined(states_norm_, residual, width));
  if (config_.norm_before_residual) {
    layers::Activations part = a;
    part.hidden = a.joined.Columns(width, width);
    part.normed = a.hidden;
    SLUICE_RETURN_IF_ERROR(copy_(stream, part));
    residual = a.hidden;
  }
  if (!third()) {
    SLUICE_RETURN_IF_ERROR(join_(stream, a.joined, {}, a.hidden));
    residual = a.hidden;
  }
  return residual;
}

Status EagleHead::Draft(ForwardContext& context, const DeviceBatch& batch,
                        const ops::Tensor& hidden, Of of, const DraftOutputs& outputs) const {
  if (batch.tokens() == 0) return OkStatus();
  if (config_.form == files::EagleForm::kDiffusion) {
    return of == Of::kModel ? ReadModel(context, batch, hidden)
                            : DraftBlock(context, batch, hidden, outputs);
  }
  device::Stream& stream = *context.stream;
  layers::Activations a = layers::Activations::Slice(context.workspace, config_.layer, options_,
                                                     batch.tokens(), batch.rows());
  if (!outputs.hidden.empty()) a.last = outputs.hidden;
  SLUICE_ASSIGN_OR_RETURN(ops::Tensor residual, Join(stream, batch, hidden, of, a));
  for (const Layer& layer : layers_) {
    layers::Activations read = a;
    if (layer.input_norm.bound()) {
      SLUICE_RETURN_IF_ERROR(layer.input_norm(stream, a));
    } else {
      read.normed = a.joined;
    }
    SLUICE_RETURN_IF_ERROR(layer.attention(context, batch, read, residual, a.hidden));
    SLUICE_RETURN_IF_ERROR(layer.mlp_norm(stream, a));
    SLUICE_RETURN_IF_ERROR(layer.mlp(context, batch, a, a.hidden, a.hidden));
    residual = a.hidden;
  }
  return logits_(stream, batch, a, outputs.logits);
}

}  // namespace sluice::model
