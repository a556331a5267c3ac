#include "backend/cuda/experts_chain/impls.h"

#include "backend/cuda/alignment.h"
#include "backend/cuda/experts_chain/config.h"
#include "backend/cuda/experts_chain/params.h"
#include "backend/cuda/launch.h"

namespace sluice::cuda {
namespace {

using ops::ExpertsChain;
using ops::PackedWeight;
using ops::Tensor;

// Boxes of a stage, of rows of bytes.
Result<TensorMap> MapStages(const PackedWeight& weight, int number_bytes) {
  const auto rows = static_cast<uint64_t>(weight.n),
             row_bytes = static_cast<uint64_t>(weight.k * number_bytes);
  return MapBoxes({.data = weight.data.data,
                   .number_bytes = 1,
                   .dims = {kChainUnit, rows, row_bytes / kChainUnit, 1},
                   .strides = {row_bytes, kChainUnit, rows * row_bytes},
                   .box = {kChainUnit, kChainSlab, kChainStageUnits, 1}});
}

// `matrices`: how many lie one behind another.
Status SetWeight(const PackedWeight& weight, int64_t matrices, ChainPhase& phase) {
  phase.n = static_cast<int>(weight.n / matrices);
  phase.k = static_cast<int>(weight.k);
  phase.w_scales = weight.scales.ptr<float>();
  SLUICE_ASSIGN_OR_RETURN(phase.w, MapStages(weight, 1));
  return OkStatus();
}

void SetRows(const Tensor& x, const Tensor& norm, const Tensor& residual, const Tensor& out,
             ChainPhase& phase) {
  phase.x = x.data;
  phase.x_stride = x.strides[0];
  phase.norm = norm.ptr<float>();
  phase.residual = residual.data;
  phase.residual_stride = residual.empty() ? 0 : residual.strides[0];
  phase.out = out.data;
  phase.out_stride = out.strides[0];
}

// What the kernel reads by words of 16 bytes.
Status CheckAlignment(const ExpertsChain::Args& args) {
  constexpr int64_t kWide = 16;
  bool ok = true;
  for (const Tensor* rows :
       {&args.attended, &args.middle, &args.gated, &args.out, &args.mlp_norm, &args.next_norm})
    ok = ok && (rows->empty() || RowsBeginAt(*rows, kWide));
  for (const PackedWeight* weight :
       {args.w_o, args.w_router, args.w_gate_up, args.w_down, args.w_qkv}) {
    if (weight == nullptr) continue;
    ok = ok && reinterpret_cast<uintptr_t>(weight->data.data) % kWide == 0 &&
         reinterpret_cast<uintptr_t>(weight->scales.data) % kWide == 0;
  }
  if (ok) return OkStatus();
  return InvalidArgument(
      StrCat("experts_chain: rows, weights and their scales must begin at multiples of ", kWide,
             " bytes"));
}

RouteExpertsParams RouteOf(const ExpertsChain::Desc& desc, const ExpertsChain::Args& args) {
  const ops::RouteExperts::Desc& route = desc.route;
  return {.logits = nullptr,
          .bias = args.score_bias.ptr<float>(),
          .scales = args.expert_scales.ptr<float>(),
          .ids = nullptr,
          .weights = nullptr,
          .logits_stride = 0,
          .ids_stride = 0,
          .weights_stride = 0,
          .tokens = 1,
          .experts = route.experts,
          .top_k = route.top_k,
          .groups = route.groups,
          .groups_kept = route.groups_kept,
          .scale = route.scale,
          .sigmoid = route.scoring == ops::RouterScoring::kSigmoid ? 1u : 0u,
          .renormalize = route.renormalize ? 1u : 0u,
          .by_softmax = route.scoring == ops::RouterScoring::kSoftmaxBiased ? 1u : 0u};
}

ops::Support Supports(const ExpertsChain::Desc& desc, const device::DeviceFacts& facts) {
  return SupportsExpertsChain(desc, facts.compute_units);
}

Status Run(device::Stream& stream, const ExpertsChain::Desc& desc, const ExpertsChain::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckAlignment(args));
  ExpertsChainParams params;
  ChainParams& chain = params.chain;
  chain.m = 1;
  chain.eps = desc.eps;
  chain.phase_count = desc.qkv > 0 ? 4 : 3;
  SLUICE_RETURN_IF_ERROR(SetWeight(*args.w_o, 1, chain.phases[0]));
  SetRows(args.attended, {}, args.residual, args.middle, chain.phases[0]);
  SLUICE_RETURN_IF_ERROR(SetWeight(*args.w_gate_up, desc.route.experts, chain.phases[1]));
  SetRows(args.middle, args.mlp_norm, {}, args.gated, chain.phases[1]);
  SLUICE_RETURN_IF_ERROR(SetWeight(*args.w_down, desc.route.experts, chain.phases[2]));
  SetRows(args.gated, {}, args.middle, args.out, chain.phases[2]);
  if (desc.qkv > 0) {
    SLUICE_RETURN_IF_ERROR(SetWeight(*args.w_qkv, 1, chain.phases[3]));
    SetRows(args.out, args.next_norm, {}, args.qkv, chain.phases[3]);
  }
  SLUICE_ASSIGN_OR_RETURN(params.router, MapStages(*args.w_router, 2));
  params.logits = args.logits.ptr<float>();
  params.route = RouteOf(desc, args);
  params.counts = args.counts.ptr<uint32_t>();
  params.counted = args.counted.ptr<int32_t>();
  const ExpertsChainPlan plan = PlanExpertsChain(desc);
  chain.stages = plan.stages;
  chain.asked_max = plan.asked_max;
  chain.code_bytes = plan.code_bytes;
  params.row_at = plan.row_at;
  params.routed_at = plan.routed_at;
  const LaunchShape shape = {.grid = {static_cast<unsigned>(FactsOf(stream).compute_units)},
                             .block = {static_cast<unsigned>(kChainThreads)},
                             .shared_bytes = static_cast<unsigned>(plan.shared_bytes),
                             .together = true};
  return Launch(stream, {"sm90_f8_experts_chain", "f8_experts_chain"}, shape, params);
}

}  // namespace

void RegisterExpertsChain(ops::OpTable& table) {
  table.Add<ExpertsChain>({.name = "sm90_f8_experts_chain",
                           .supports = &Supports,
                           .run = &Run,
                           .arithmetic = ops::Arithmetic::kAsReference});
}

}  // namespace sluice::cuda
