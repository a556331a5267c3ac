#include "backend/cuda/dense_chain/impls.h"

#include "backend/cuda/dense_chain/config.h"
#include "backend/cuda/dense_chain/phases.h"
#include "backend/cuda/launch.h"
#include "ops/dense_chain.h"

namespace sluice::cuda {
namespace {

using ops::DenseChain;

ops::Support Supports(const DenseChain::Desc& desc, const device::DeviceFacts&) {
  return SupportsChain(desc);
}

Status Run(device::Stream& stream, const DenseChain::Desc& desc, const DenseChain::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  ChainParams params;
  params.m = static_cast<int>(args.attended.dims[0]);
  if (params.m == 0) return OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckPhaseAlignment(
      DenseChain::kName,
      {&args.attended, &args.middle, &args.gated, &args.out, &args.mlp_norm, &args.next_norm},
      {args.w_o, args.w_gate_up, args.w_down, args.w_qkv}));
  params.eps = desc.eps;
  ChainPhase& o = params.phases[0];
  ChainPhase& gate_up = params.phases[1];
  ChainPhase& down = params.phases[2];
  ChainPhase& qkv = params.phases[3];
  SLUICE_RETURN_IF_ERROR(SetPhaseWeight(*args.w_o, 1, o));
  SetPhaseRows(args.attended, {}, args.residual, args.middle, o);
  SLUICE_RETURN_IF_ERROR(SetPhaseWeight(*args.w_gate_up, 1, gate_up));
  SetPhaseRows(args.middle, args.mlp_norm, {}, args.gated, gate_up);
  gate_up.gated = true;
  SLUICE_RETURN_IF_ERROR(SetPhaseWeight(*args.w_down, 1, down));
  SetPhaseRows(args.gated, {}, args.middle, args.out, down);
  params.phase_count = 3;
  if (desc.qkv > 0) {
    SLUICE_RETURN_IF_ERROR(SetPhaseWeight(*args.w_qkv, 1, qkv));
    SetPhaseRows(args.out, args.next_norm, {}, args.qkv, qkv);
    params.phase_count = 4;
  }
  const ChainPlan plan = PlanChain(desc, params.m);
  params.stages = plan.stages;
  params.asked_max = plan.asked_max;
  params.code_bytes = plan.code_bytes;
  const LaunchShape shape = {.grid = {static_cast<unsigned>(FactsOf(stream).compute_units)},
                             .block = {static_cast<unsigned>(kChainThreads)},
                             .shared_bytes = static_cast<unsigned>(plan.shared_bytes),
                             .together = true};
  return Launch(stream, {"sm90_f8_dense_chain", plan.function}, shape, params);
}

}  // namespace

void RegisterDenseChain(ops::OpTable& table) {
  table.Add<DenseChain>({.name = "sm90_f8_dense_chain",
                         .supports = &Supports,
                         .run = &Run,
                         .arithmetic = ops::Arithmetic::kAsReference});
}

}  // namespace sluice::cuda
