#include "model/layers/layer_state.h"

#include "base/check.h"

namespace sluice::model::layers {

ops::Tensor StateOf(const ops::Tensor& kept, std::initializer_list<int64_t> dims) {
  ops::Tensor state = kept;
  state.rank = 1;
  for (const int64_t dim : dims) state.dims[state.rank++] = dim;
  state.dims[1] *= kept.dims[2];
  int64_t stride = 1;
  for (int i = state.rank - 1; i > 0; --i) {
    state.strides[i] = stride;
    stride *= state.dims[i];
  }
  CHECK(stride == kept.dims[2] * kept.dims[3], stride, " numbers in a block of ", kept.dims[2],
        " states of ", kept.dims[3]);
  return state;
}

ops::ShortConv::Desc ShortConvDesc(const files::ModelConfig& config, const ModelOptions& options,
                                   const batch::KvGroup& group) {
  ops::ShortConv::Desc desc;
  desc.activation = options.activation;
  desc.gated = config.short_conv.kernel > 0;
  desc.bias = config.short_conv.bias || config.linear.conv_bias;
  desc.channels = desc.gated ? config.hidden_size : config.linear.channels();
  desc.kernel = desc.gated ? config.short_conv.kernel : config.linear.conv_kernel;
  desc.block_tokens = group.block_tokens;
  desc.states = group.states;
  return desc;
}

Status TellWritten(const ForwardContext& context, int layer, int group) {
  return context.observer == nullptr ? OkStatus() : context.observer->LayerWritten(layer, group);
}

Result<LayerConv> LayerConv::Make(const Binder& binder, const std::string& taps,
                                  const batch::KvGroup& group) {
  LayerConv conv;
  const ops::ShortConv::Desc desc = ShortConvDesc(binder.config, binder.options, group);
  SLUICE_ASSIGN_OR_RETURN(conv.conv_, binder.Bind<ops::ShortConv>(desc));
  conv.taps_ = binder.Get(taps)->tensor;
  if (desc.bias) conv.bias_ = binder.Get(taps + "_bias")->tensor;
  return conv;
}

Status LayerConv::operator()(device::Stream& stream, const DeviceBatch& batch, int group,
                             const ops::Tensor& x, const ops::Tensor& kept,
                             const ops::Tensor& out) const {
  const ops::ShortConv::Desc& desc = conv_.desc();
  ops::ShortConv::Args args;
  args.x = x;
  args.weight = taps_;
  args.bias = bias_;
  args.state = StateOf(kept, {desc.kernel - 1, desc.channels});
  SetPlaces(batch, group, &args);
  args.out = out;
  return conv_(stream, args);
}

}  // namespace sluice::model::layers
