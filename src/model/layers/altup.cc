#include "model/layers/altup.h"

#include <string>

#include "base/str_cat.h"

namespace sluice::model::layers {
namespace {

template <class Op>
typename Op::Desc DescOf(const Binder& binder) {
  typename Op::Desc desc;
  desc.activation = binder.options.activation;
  desc.streams = binder.config.altup.streams;
  desc.width = binder.config.hidden_size;
  return desc;
}

}  // namespace

Activations Streams::Stream(const Activations& a, int index) {
  Activations one = a;
  const int64_t width = a.normed.dims[1];
  one.hidden = a.streams.Columns(index * width, width);
  return one;
}

Result<Streams> Streams::Make(const Binder& binder) {
  Streams streams;
  SLUICE_ASSIGN_OR_RETURN(streams.convert_, Norm::Make(binder, "", Norm::Of::kResidual));
  SLUICE_ASSIGN_OR_RETURN(streams.add_, Norm::Make(binder, "", Norm::Of::kSum));
  streams.begin_ = FusedLinear::Make(binder, "streams.begin");
  for (int i = 1; i < binder.config.altup.streams; ++i)
    streams.end_.push_back(FusedLinear::Make(binder, StrCat("streams.end.", i)));
  auto desc = DescOf<ops::LevelStreams>(binder);
  SLUICE_ASSIGN_OR_RETURN(streams.level_, binder.Bind<ops::LevelStreams>(desc));
  desc.mean = true;
  SLUICE_ASSIGN_OR_RETURN(streams.mean_, binder.Bind<ops::LevelStreams>(desc));
  return streams;
}

Status Streams::Begin(device::Stream& stream, const Activations& a) const {
  SLUICE_RETURN_IF_ERROR(convert_(stream, First(a)));
  const int64_t width = a.normed.dims[1];
  const ops::Tensor others = a.streams.Columns(width, a.streams.dims[1] - width);
  SLUICE_RETURN_IF_ERROR(begin_(stream, a.normed, {}, others));
  return level_(stream, {.streams = a.streams});
}

Status Streams::End(device::Stream& stream, const Activations& a) const {
  for (size_t i = 0; i < end_.size(); ++i) {
    const Activations one = Stream(a, static_cast<int>(i) + 1);
    SLUICE_RETURN_IF_ERROR(add_(stream, one));
    SLUICE_RETURN_IF_ERROR(end_[i](stream, one.normed, {}, one.hidden));
  }
  return mean_(stream, {.streams = a.streams, .out = a.hidden});
}

Result<AltUp> AltUp::Make(const Binder& binder, int layer) {
  const std::string prefix = StrCat("layers.", layer, ".altup.");
  AltUp altup;
  altup.adds_ = layer > 0;
  SLUICE_ASSIGN_OR_RETURN(altup.norm_,
                          Norm::Make(binder, prefix + "router_norm", Norm::Of::kResidual));
  SLUICE_ASSIGN_OR_RETURN(altup.norm_of_sum_,
                          Norm::Make(binder, prefix + "router_norm", Norm::Of::kSum));
  altup.router_ = FusedLinear::Make(binder, prefix + "router");
  altup.predict_weight_ = binder.Get(prefix + "predict")->tensor;
  altup.correct_weight_ = binder.Get(prefix + "correct")->tensor;
  auto predict = DescOf<ops::PredictStreams>(binder);
  predict.add = altup.adds_;
  SLUICE_ASSIGN_OR_RETURN(altup.predict_, binder.Bind<ops::PredictStreams>(predict));
  auto correct = DescOf<ops::CorrectStreams>(binder);
  correct.scaled = binder.config.altup.scaled;
  if (correct.scaled) altup.scale_ = binder.Get(prefix + "scale")->tensor;
  SLUICE_ASSIGN_OR_RETURN(altup.correct_, binder.Bind<ops::CorrectStreams>(correct));
  return altup;
}

Status AltUp::Predict(device::Stream& stream, const Activations& a) const {
  SLUICE_RETURN_IF_ERROR(norm_(stream, Streams::First(a)));
  SLUICE_RETURN_IF_ERROR(router_(stream, a.normed, {}, a.routes));
  return predict_(stream, {.streams = a.streams,
                           .added = adds_ ? a.branch : ops::Tensor(),
                           .routes = a.routes,
                           .coefficients = predict_weight_,
                           .out = a.hidden});
}

Status AltUp::Correct(device::Stream& stream, const Activations& a) const {
  SLUICE_RETURN_IF_ERROR(norm_of_sum_(stream, a));
  SLUICE_RETURN_IF_ERROR(router_(stream, a.normed, {}, a.routes));
  return correct_(stream, {.streams = a.streams,
                           .x = a.hidden,
                           .routes = a.routes,
                           .coefficients = correct_weight_,
                           .scale = scale_,
                           .out = a.normed});
}

Result<Laurel> Laurel::Make(const Binder& binder, int layer) {
  const std::string prefix = StrCat("layers.", layer, ".laurel.");
  Laurel laurel;
  laurel.rank_ = binder.config.altup.laurel_rank;
  laurel.left_ = FusedLinear::Make(binder, prefix + "left");
  laurel.right_ = FusedLinear::Make(binder, prefix + "right");
  SLUICE_ASSIGN_OR_RETURN(laurel.norm_,
                          Norm::Make(binder, prefix + "post_norm", Norm::Of::kBranch));
  ops::Norm::Desc add = {.kind = ops::NormKind::kNone,
                         .activation = binder.options.activation,
                         .hidden = binder.config.hidden_size,
                         .add = true};
  add.f32_residual = ops::ResidualDType(add.activation) != add.activation;
  SLUICE_ASSIGN_OR_RETURN(laurel.add_, binder.Bind<ops::Norm>(add));
  return laurel;
}

Status Laurel::operator()(device::Stream& stream, const Activations& a) const {
  // Rows lie one behind the other, whatever the feed-forward parts need.
  ops::Tensor inner = a.gate_up;
  inner.dims[1] = inner.strides[0] = rank_;
  SLUICE_RETURN_IF_ERROR(left_(stream, a.normed, {}, inner));
  SLUICE_RETURN_IF_ERROR(right_(stream, inner, {}, a.branch));
  SLUICE_RETURN_IF_ERROR(norm_(stream, a));
  SLUICE_RETURN_IF_ERROR(add_(stream, {.x = a.branch, .residual = a.hidden, .out = a.branch}));
  return add_(stream, {.x = a.normed, .residual = a.hidden, .out = a.branch});
}

}  // namespace sluice::model::layers
