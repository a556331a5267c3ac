#include "model/layers/pooling.h"

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

}  // namespace

Result<Pooling> Pooling::Make(const Binder& binder) {
  Pooling pooling;
  ops::Pool::Desc desc;
  desc.kind = KindOf(binder.config.pooling->kind);
  desc.activation = binder.options.activation;
  desc.width = binder.config.hidden_size;
  SLUICE_ASSIGN_OR_RETURN(pooling.pool_, binder.Bind<ops::Pool>(desc));
  if (binder.config.labels.empty()) return pooling;
  pooling.dense_ = FusedLinear::Make(binder, "head.dense");
  pooling.labels_ = FusedLinear::Make(binder, "head.labels");
  ops::SoftCap::Desc tanh;
  tanh.activation = binder.options.activation;
  tanh.cap = 1.0f;
  SLUICE_ASSIGN_OR_RETURN(pooling.tanh_, binder.Bind<ops::SoftCap>(tanh));
  return pooling;
}

Status Pooling::operator()(device::Stream& stream, const DeviceBatch& batch, const Activations& a,
                           const ops::Tensor& vectors) const {
  const int64_t sequences = batch.sequences();
  const ops::Tensor pooled = tanh_.bound() ? a.hidden.Rows(0, sequences) : vectors;
  SLUICE_RETURN_IF_ERROR(
      pool_(stream, {.x = a.normed, .query_start = batch.query_start, .out = pooled}));
  if (!tanh_.bound()) return OkStatus();
  const ops::Tensor inner = a.branch.Rows(0, sequences);
  SLUICE_RETURN_IF_ERROR(dense_(stream, pooled, {}, inner));
  SLUICE_RETURN_IF_ERROR(tanh_(stream, {inner}));
  return labels_(stream, inner, {}, vectors);
}

}  // namespace sluice::model::layers
