#include <vector>

#include "ops/experts_chain.h"
#include "ops/norm.h"

namespace sluice::ops {
namespace {

// A tensor in host memory of its own.
struct Room {
  std::vector<std::byte> bytes;
  Tensor tensor;
  Room(const Tensor& beside, DType dtype, std::vector<int64_t> dims) : tensor(beside) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    bytes.resize(RowBytes(dtype, count));
    tensor.data = bytes.data();
    tensor.dtype = dtype;
    tensor.rank = static_cast<int>(dims.size());
    for (size_t i = dims.size(); i-- > 0;) {
      tensor.dims[i] = dims[i];
      tensor.strides[i] = i + 1 < dims.size() ? tensor.strides[i + 1] * dims[i + 1] : 1;
    }
  }
};

Status RunExperts(device::Stream& stream, const ExpertsChain::Desc& desc,
                  const ExpertsChain::Args& args, const Tensor& x) {
  const int64_t top_k = desc.route.top_k;
  Room ids(x, DType::kI32, {1, top_k}), weights(x, DType::kF32, {1, top_k}),
      starts(x, DType::kI32, {desc.route.experts + 1}), tokens(x, DType::kI32, {top_k}),
      places(x, DType::kI32, {1, top_k}), gate_up(x, desc.activation, {top_k, 2 * desc.width}),
      given(x, DType::kF32, {top_k, desc.hidden});
  SLUICE_RETURN_IF_ERROR(RefRouteExperts(stream, desc.route,
                                         {.logits = args.logits,
                                          .bias = args.score_bias,
                                          .scales = args.expert_scales,
                                          .ids = ids.tensor,
                                          .weights = weights.tensor}));
  SLUICE_RETURN_IF_ERROR(RefGroupExperts(stream,
                                         {.experts = desc.route.experts, .top_k = desc.route.top_k},
                                         {.ids = ids.tensor,
                                          .starts = starts.tensor,
                                          .tokens = tokens.tensor,
                                          .places = places.tensor,
                                          .counts = args.counts,
                                          .counted = args.counted}));
  SLUICE_RETURN_IF_ERROR(RefGroupedLinear(stream, FirstProductsOf(desc),
                                          {.x = x,
                                           .tokens = tokens.tensor,
                                           .starts = starts.tensor,
                                           .weight = args.w_gate_up,
                                           .out = gate_up.tensor}));
  SLUICE_RETURN_IF_ERROR(RefGatedActivation(stream, {desc.kind, desc.activation, desc.width},
                                            {gate_up.tensor, args.gated}));
  SLUICE_RETURN_IF_ERROR(RefGroupedLinear(
      stream, SecondProductsOf(desc),
      {.x = args.gated, .starts = starts.tensor, .weight = args.w_down, .out = given.tensor}));
  return RefCombineExperts(
      stream,
      {.out = desc.activation, .top_k = desc.route.top_k, .width = desc.hidden, .residual = true},
      {.y = given.tensor,
       .weights = weights.tensor,
       .places = places.tensor,
       .residual = args.middle,
       .out = args.out});
}

}  // namespace

Support RefExpertsChainSupports(const ExpertsChain::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.x_scales == ActivationScales::kTensor)
    return Support::No("scales of activations that the checkpoint gives");
  for (const Linear::Desc& product :
       {ProductOf(desc, desc.hidden, desc.attended, true), RouterOf(desc)}) {
    if (Support support = RefLinearSupports(product, facts); !support.ok) return support;
  }
  for (const GroupedLinear::Desc& products : {FirstProductsOf(desc), SecondProductsOf(desc)}) {
    if (Support support = RefGroupedLinearSupports(products, facts); !support.ok) return support;
  }
  if (Support support = RefRouteExpertsSupports(desc.route, facts); !support.ok) return support;
  return RefGatedActivationSupports({desc.kind, desc.activation, desc.width}, facts);
}

Status RefExpertsChain(device::Stream& stream, const ExpertsChain::Desc& desc,
                       const ExpertsChain::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  Room normed(args.middle, desc.activation, {1, desc.hidden});
  const Norm::Desc norm = {.activation = desc.activation, .hidden = desc.hidden, .eps = desc.eps};
  SLUICE_RETURN_IF_ERROR(RefLinear(
      stream, ProductOf(desc, desc.hidden, desc.attended, true),
      {.x = args.attended, .weight = args.w_o, .residual = args.residual, .out = args.middle}));
  SLUICE_RETURN_IF_ERROR(
      RefNorm(stream, norm, {.x = args.middle, .weight = args.mlp_norm, .out = normed.tensor}));
  SLUICE_RETURN_IF_ERROR(RefLinear(
      stream, RouterOf(desc), {.x = normed.tensor, .weight = args.w_router, .out = args.logits}));
  SLUICE_RETURN_IF_ERROR(RunExperts(stream, desc, args, normed.tensor));
  if (desc.qkv == 0) return OkStatus();
  SLUICE_RETURN_IF_ERROR(
      RefNorm(stream, norm, {.x = args.out, .weight = args.next_norm, .out = normed.tensor}));
  return RefLinear(stream, ProductOf(desc, desc.qkv, desc.hidden, false),
                   {.x = normed.tensor, .weight = args.w_qkv, .out = args.qkv});
}

}  // namespace sluice::ops
