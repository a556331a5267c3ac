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
  return pooling;
}

Status Pooling::operator()(device::Stream& stream, const DeviceBatch& batch, const Activations& a,
                           const ops::Tensor& vectors) const {
  return pool_(stream, {.x = a.normed, .query_start = batch.query_start, .out = vectors});
}

}  // namespace sluice::model::layers
