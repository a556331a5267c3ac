#include "model/layers/pooling.h"

#include "base/str_cat.h"
#include "files/architectures.h"

namespace sluice::model::layers {
namespace {

ops::PoolKind KindOf(files::PoolingKind kind) {
  switch (kind) {
    case files::PoolingKind::kFirst:
      return ops::PoolKind::kFirst;
    case files::PoolingKind::kMean:
      return ops::PoolKind::kMean;
    case files::PoolingKind::kLast:
      return ops::PoolKind::kLast;
  }
  return ops::PoolKind::kMean;
}

Result<ops::Bound<ops::SoftCap>> BindTanh(const Binder& binder) {
  ops::SoftCap::Desc tanh;
  tanh.activation = binder.options.activation;
  tanh.cap = 1.0f;
  return binder.Bind<ops::SoftCap>(tanh);
}

}  // namespace

Result<Pooling::Step> Pooling::MakeDense(const Binder& binder, size_t number) {
  const files::DenseConfig& config = binder.config.pooling->dense[number];
  Step step;
  step.linear = FusedLinear::Make(binder, StrCat("dense.", number));
  step.out = config.out;
  if (config.tanh) {
    SLUICE_ASSIGN_OR_RETURN(step.tanh, BindTanh(binder));
  }
  return step;
}

// What stands before a classifier's last product.
Result<Pooling::Step> Pooling::MakeHead(const Binder& binder) {
  const files::ModelConfig& config = binder.config;
  Step step;
  step.linear = FusedLinear::Make(binder, "head.dense");
  step.out = config.hidden_size;
  if (config.architecture != files::Architecture::kModernBert) {
    SLUICE_ASSIGN_OR_RETURN(step.tanh, BindTanh(binder));
    return step;
  }
  const DType activation = binder.options.activation;
  SLUICE_ASSIGN_OR_RETURN(step.gelu,
                          binder.Bind<ops::PlainActivation>({.kind = ops::Activation::kGeluErf,
                                                             .activation = activation,
                                                             .width = config.hidden_size}));
  SLUICE_ASSIGN_OR_RETURN(step.norm, binder.Bind<ops::Norm>({.kind = ops::NormKind::kLayer,
                                                             .activation = activation,
                                                             .hidden = config.hidden_size,
                                                             .eps = config.norm_eps}));
  step.norm_weight = binder.Get("head.norm")->tensor;
  return step;
}

Result<Pooling> Pooling::Make(const Binder& binder) {
  const files::ModelConfig& config = binder.config;
  Pooling pooling;
  ops::Pool::Desc desc;
  desc.kind = KindOf(config.pooling->kind);
  desc.activation = binder.options.activation;
  desc.width = config.hidden_size;
  SLUICE_ASSIGN_OR_RETURN(pooling.pool_, binder.Bind<ops::Pool>(desc));
  for (size_t i = 0; i < config.pooling->dense.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(pooling.steps_.emplace_back(), MakeDense(binder, i));
  }
  if (config.labels.empty()) return pooling;
  if (!config.pooling->answer) {
    SLUICE_ASSIGN_OR_RETURN(pooling.steps_.emplace_back(), MakeHead(binder));
  }
  pooling.steps_.emplace_back().linear = FusedLinear::Make(binder, "head.labels");
  pooling.steps_.back().out = config.vector_size();
  return pooling;
}

Status Pooling::Step::operator()(device::Stream& stream, const ops::Tensor& x,
                                 const ops::Tensor& to) const {
  SLUICE_RETURN_IF_ERROR(linear(stream, x, {}, to));
  if (tanh.bound()) SLUICE_RETURN_IF_ERROR(tanh(stream, {to}));
  if (gelu.bound()) SLUICE_RETURN_IF_ERROR(gelu(stream, {to}));
  if (!norm.bound()) return OkStatus();
  ops::Norm::Args args;
  args.x = args.out = to;
  args.weight = norm_weight;
  return norm(stream, args);
}

Status Pooling::operator()(device::Stream& stream, const DeviceBatch& batch, const Activations& a,
                           const ops::Tensor& vectors) const {
  const int64_t sequences = batch.sequences();
  ops::Tensor x = steps_.empty() ? vectors : a.hidden.Rows(0, sequences);
  SLUICE_RETURN_IF_ERROR(
      pool_(stream, {.x = a.normed, .query_start = batch.query_start, .out = x}));
  for (size_t i = 0; i < steps_.size(); ++i) {
    const bool last = i + 1 == steps_.size();
    const ops::Tensor to =
        last ? vectors : a.pooled[i % 2].Rows(0, sequences).Columns(0, steps_[i].out);
    SLUICE_RETURN_IF_ERROR(steps_[i](stream, x, to));
    x = to;
  }
  return OkStatus();
}

}  // namespace sluice::model::layers
