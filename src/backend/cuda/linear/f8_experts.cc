#include "backend/cuda/linear/f8_experts.h"

#include "backend/cuda/launch.h"
#include "backend/cuda/linear/f8_product.h"
#include "backend/cuda/narrow_map.h"

namespace sluice::cuda {

using ops::ActivationScales;
using ops::GroupedLinear;
using ops::WeightScales;

ops::Support SupportsF8Experts(const GroupedLinear::Desc& desc) {
  if (ops::Support each = SupportsF8(desc.each); !each.ok) return each;
  if (desc.each.weight_scales != WeightScales::kBlock ||
      desc.each.x_scales != ActivationScales::kBlock) {
    return ops::Support::No("scales of other than blocks");
  }
  if (desc.each.activation != DType::kBF16)
    return ops::Support::No(StrCat("activations in ", Name(desc.each.activation)));
  if (desc.each.bias || desc.by_columns) return ops::Support::No("biases, or columns of its own");
  return ops::Support::Yes();
}

Status MultiplyF8Experts(device::Stream& stream, const GroupedLinear::Desc& desc,
                         const GroupedLinear::Args& args, const F8ExpertsPlan& plan,
                         const F8ExpertOutputs& outputs) {
  // As many rows become codes as there are in x, not in out.
  ops::Linear::Args rows_of_x = {.x = args.x, .weight = args.weight, .out = args.x};
  rows_of_x.x_scales = args.x_scales;
  SLUICE_ASSIGN_OR_RETURN(const F8Codes x, QuantizeF8(stream, desc.each, rows_of_x));
  const bool gated = !outputs.scales.empty();
  const auto rows = static_cast<uint64_t>(args.weight->n), k = static_cast<uint64_t>(desc.each.k);
  F8ExpertsParams params = {
      .w_scales = args.weight->scales.ptr<float>(),
      .x = reinterpret_cast<const uint8_t*>(x.codes),
      .x_scales = x.scales,
      .starts = args.starts.ptr<int32_t>(),
      .tokens = args.tokens.ptr<int32_t>(),
      .out = outputs.out.data,
      .out_scales = outputs.scales.ptr<float>(),
      .x_stride = x.row_bytes,
      .out_stride = outputs.out.strides[0],
      .x_scale_stride = static_cast<int>(x.scale_stride),
      .out_scale_stride = gated ? static_cast<int>(outputs.scales.strides[0]) : 0,
      .n = static_cast<int>(desc.each.n),
      .k = static_cast<int>(desc.each.k),
      .experts = desc.experts,
      .stages = plan.stages,
      .kind = outputs.kind,
      .result = outputs.out.dtype,
      .all_taken = plan.all_taken};
  SLUICE_ASSIGN_OR_RETURN(params.w,
                          MapNarrowBoxes({.data = args.weight->data.data,
                                          .number_bytes = 1,
                                          .dims = {kF8Unit, rows, k / kF8Unit, 1},
                                          .strides = {k, kF8Unit, rows * k},
                                          .box = {kF8Unit, kF8GroupRows, kF8ExpertsUnits, 1}}));
  const LaunchShape shape = {.grid = {static_cast<unsigned>(FactsOf(stream).compute_units)},
                             .block = {static_cast<unsigned>(F8ExpertsThreads(gated))},
                             .shared_bytes = static_cast<unsigned>(plan.shared_bytes)};
  const char* const function = gated ? plan.kernel->gated_function : plan.kernel->function;
  return Launch(stream, {"sm90_f8_experts", function}, shape, params);
}

}  // namespace sluice::cuda
