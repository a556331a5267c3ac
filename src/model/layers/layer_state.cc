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

}  // namespace sluice::model::layers
