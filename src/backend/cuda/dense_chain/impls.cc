#include "backend/cuda/dense_chain/impls.h"

#include "backend/cuda/alignment.h"
#include "backend/cuda/dense_chain/config.h"
#include "backend/cuda/dense_chain/params.h"
#include "backend/cuda/launch.h"
#include "ops/dense_chain.h"

namespace sluice::cuda {
namespace {

using ops::DenseChain;

Status SetWeight(const ops::PackedWeight& weight, ChainPhase& phase) {
  phase.n = static_cast<int>(weight.n);
  phase.k = static_cast<int>(weight.k);
  phase.w_scales = weight.scales.ptr<float>();
  const auto rows = static_cast<uint64_t>(weight.n), row_bytes = static_cast<uint64_t>(weight.k);
  SLUICE_ASSIGN_OR_RETURN(phase.w,
                          MapBoxes({.data = weight.data.data,
                                    .number_bytes = 1,
                                    .dims = {kChainUnit, rows, row_bytes / kChainUnit, 1},
                                    .strides = {row_bytes, kChainUnit, rows * row_bytes},
                                    .box = {kChainUnit, kChainSlab, kChainStageUnits, 1}}));
  return OkStatus();
}

void SetRows(const ops::Tensor& x, const ops::Tensor& norm, const ops::Tensor& residual,
             const ops::Tensor& out, ChainPhase& phase) {
  phase.x = x.data;
  phase.x_stride = x.strides[0];
  phase.norm = norm.ptr<float>();
  phase.residual = residual.data;
  phase.residual_stride = residual.empty() ? 0 : residual.strides[0];
  phase.out = out.data;
  phase.out_stride = out.strides[0];
}

// What the kernel reads by words of 16 bytes.
Status CheckAlignment(const DenseChain::Args& args) {
  constexpr int64_t kWide = 16;
  bool ok = true;
  for (const ops::Tensor* rows :
       {&args.attended, &args.middle, &args.gated, &args.out, &args.mlp_norm, &args.next_norm}) {
    ok = ok && (rows->empty() || RowsBeginAt(*rows, kWide));
  }
  for (const ops::PackedWeight* weight : {args.w_o, args.w_gate_up, args.w_down, args.w_qkv}) {
    if (weight == nullptr) continue;
    ok = ok && reinterpret_cast<uintptr_t>(weight->data.data) % kWide == 0 &&
         reinterpret_cast<uintptr_t>(weight->scales.data) % kWide == 0;
  }
  if (ok) return OkStatus();
  return InvalidArgument(StrCat(
      "dense_chain: rows, weights and their scales must begin at multiples of ", kWide, " bytes"));
}

ops::Support Supports(const DenseChain::Desc& desc, const device::DeviceFacts&) {
  return SupportsChain(desc);
}

Status Run(device::Stream& stream, const DenseChain::Desc& desc, const DenseChain::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  ChainParams params;
  params.m = static_cast<int>(args.attended.dims[0]);
  if (params.m == 0) return OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckAlignment(args));
  params.eps = desc.eps;
  ChainPhase& o = params.phases[0];
  ChainPhase& gate_up = params.phases[1];
  ChainPhase& down = params.phases[2];
  ChainPhase& qkv = params.phases[3];
  SLUICE_RETURN_IF_ERROR(SetWeight(*args.w_o, o));
  SetRows(args.attended, {}, args.residual, args.middle, o);
  SLUICE_RETURN_IF_ERROR(SetWeight(*args.w_gate_up, gate_up));
  SetRows(args.middle, args.mlp_norm, {}, args.gated, gate_up);
  gate_up.gated = true;
  SLUICE_RETURN_IF_ERROR(SetWeight(*args.w_down, down));
  SetRows(args.gated, {}, args.middle, args.out, down);
  params.phase_count = 3;
  if (desc.qkv > 0) {
    SLUICE_RETURN_IF_ERROR(SetWeight(*args.w_qkv, qkv));
    SetRows(args.out, args.next_norm, {}, args.qkv, qkv);
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
