#include <vector>

#include "ops/dense_chain.h"
#include "ops/norm.h"

namespace sluice::ops {
namespace {

// Rows in host memory beside those of a tensor.
struct Rows {
  std::vector<std::byte> bytes;
  Tensor tensor;
  Rows(const Tensor& like, int64_t width) : tensor(like) {
    bytes.resize(RowBytes(like.dtype, static_cast<size_t>(like.dims[0] * width)));
    tensor.data = bytes.data();
    tensor.dims[1] = tensor.strides[0] = width;
  }
};

}  // namespace

Support RefDenseChainSupports(const DenseChain::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.x_scales == ActivationScales::kTensor)
    return Support::No("scales of activations that the checkpoint gives");
  for (const auto& [n, k] : {std::pair(desc.hidden, desc.attended),
                             {2 * desc.width, desc.hidden},
                             {desc.hidden, desc.width}}) {
    Support support = RefLinearSupports(ProductOf(desc, n, k, false), facts);
    if (!support.ok) return support;
  }
  return RefGatedActivationSupports({desc.kind, desc.activation, desc.width}, facts);
}

Status RefDenseChain(device::Stream& stream, const DenseChain::Desc& desc,
                     const DenseChain::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  if (args.attended.dims[0] == 0) return OkStatus();
  Rows normed(args.middle, desc.hidden), gate_up(args.middle, 2 * desc.width);
  const Norm::Desc norm = {.activation = desc.activation, .hidden = desc.hidden, .eps = desc.eps};
  const auto product = [&](int64_t n, int64_t k, const Linear::Args& of) {
    return RefLinear(stream, ProductOf(desc, n, k, !of.residual.empty()), of);
  };
  SLUICE_RETURN_IF_ERROR(product(
      desc.hidden, desc.attended,
      {.x = args.attended, .weight = args.w_o, .residual = args.residual, .out = args.middle}));
  SLUICE_RETURN_IF_ERROR(
      RefNorm(stream, norm, {.x = args.middle, .weight = args.mlp_norm, .out = normed.tensor}));
  SLUICE_RETURN_IF_ERROR(
      product(2 * desc.width, desc.hidden,
              {.x = normed.tensor, .weight = args.w_gate_up, .out = gate_up.tensor}));
  SLUICE_RETURN_IF_ERROR(RefGatedActivation(stream, {desc.kind, desc.activation, desc.width},
                                            {gate_up.tensor, args.gated}));
  SLUICE_RETURN_IF_ERROR(
      product(desc.hidden, desc.width,
              {.x = args.gated, .weight = args.w_down, .residual = args.middle, .out = args.out}));
  if (desc.qkv == 0) return OkStatus();
  SLUICE_RETURN_IF_ERROR(
      RefNorm(stream, norm, {.x = args.out, .weight = args.next_norm, .out = normed.tensor}));
  return product(desc.qkv, desc.hidden,
                 {.x = normed.tensor, .weight = args.w_qkv, .out = args.qkv});
}

}  // namespace sluice::ops
