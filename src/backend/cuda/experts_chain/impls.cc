#include "backend/cuda/experts_chain/impls.h"

#include "backend/cuda/dense_chain/phases.h"
#include "backend/cuda/experts/route_params.h"
#include "backend/cuda/experts_chain/config.h"
#include "backend/cuda/experts_chain/params.h"
#include "backend/cuda/launch.h"

namespace sluice::cuda {
namespace {

using ops::ExpertsChain;

ops::Support Supports(const ExpertsChain::Desc& desc, const device::DeviceFacts& facts) {
  return SupportsExpertsChain(desc, facts.compute_units);
}

Status Run(device::Stream& stream, const ExpertsChain::Desc& desc, const ExpertsChain::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckPhaseAlignment(
      ExpertsChain::kName,
      {&args.attended, &args.middle, &args.gated, &args.out, &args.mlp_norm, &args.next_norm},
      {args.w_o, args.w_router, args.w_gate_up, args.w_down, args.w_qkv}));
  ExpertsChainParams params;
  ChainParams& chain = params.chain;
  chain.m = 1;
  chain.eps = desc.eps;
  chain.phase_count = desc.qkv > 0 ? 4 : 3;
  SLUICE_RETURN_IF_ERROR(SetPhaseWeight(*args.w_o, 1, chain.phases[0]));
  SetPhaseRows(args.attended, {}, args.residual, args.middle, chain.phases[0]);
  SLUICE_RETURN_IF_ERROR(SetPhaseWeight(*args.w_gate_up, desc.route.experts, chain.phases[1]));
  SetPhaseRows(args.middle, args.mlp_norm, {}, args.gated, chain.phases[1]);
  SLUICE_RETURN_IF_ERROR(SetPhaseWeight(*args.w_down, desc.route.experts, chain.phases[2]));
  SetPhaseRows(args.gated, {}, args.middle, args.out, chain.phases[2]);
  if (desc.qkv > 0) {
    SLUICE_RETURN_IF_ERROR(SetPhaseWeight(*args.w_qkv, 1, chain.phases[3]));
    SetPhaseRows(args.out, args.next_norm, {}, args.qkv, chain.phases[3]);
  }
  SLUICE_ASSIGN_OR_RETURN(params.router, MapStages(*args.w_router, 2));
  params.logits = args.logits.ptr<float>();
  params.route = RouteParamsOf(desc.route, args.score_bias, args.expert_scales);
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
