#include "backend/cuda/linear/grouped_gate_impls.h"

#include "backend/cuda/activation/kind.h"
#include "backend/cuda/alignment.h"
#include "backend/cuda/linear/f8_config.h"
#include "backend/cuda/linear/f8_experts.h"
#include "base/check.h"
#include "ops/grouped_gate.h"

namespace sluice::cuda {
namespace {

using ops::GroupedGate;

F8ExpertsShape ShapeOf(const GroupedGate::Desc& desc, int64_t places) {
  const ops::Linear::Desc& each = desc.products.each;
  return {
      .places = places, .n = each.n, .k = each.k, .experts = desc.products.experts, .gated = true};
}

ops::Support Supports(const GroupedGate::Desc& desc, const device::DeviceFacts& facts) {
  if (ops::Support support = SupportsF8Experts(desc.products); !support.ok) return support;
  if (!KindOf(desc.kind)) return ops::Support::No(StrCat("has no ", Name(desc.kind)));
  // With room for the most rows that an expert has at a time: there is no other way to go.
  if (!PlanF8ExpertsWith(F8ExpertsKernels().back(), ShapeOf(desc, 0))) {
    return ops::Support::No(StrCat(
        desc.products.experts, " experts of ", desc.products.each.n, " rows of ",
        desc.products.each.k, ": up to ", kF8ExpertsMost, ", multiples of ", kF8ExpertsRows,
        " and ", kF8ExpertsUnits * kF8Unit, " that leave room for weights in shared memory"));
  }
  return ops::RefGroupedGateSupports(desc, facts);
}

Status Run(device::Stream& stream, const GroupedGate::Desc& desc, const GroupedGate::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t places = args.codes.dims[0];
  if (args.x.dims[0] == 0 || places == 0) return OkStatus();
  constexpr int64_t kWords = 8;  // bytes
  if (!RowsBeginAt(args.codes, kWords)) {
    return InvalidArgument(StrCat(GroupedGate::kName, ": rows of codes must begin at multiples of ",
                                  kWords, " bytes"));
  }
  const ops::GroupedLinear::Args products = {
      .x = args.x, .tokens = args.tokens, .starts = args.starts, .weight = args.weight, .out = {}};
  const std::optional<F8ExpertsPlan> plan = PlanF8Experts(ShapeOf(desc, places));
  CHECK(plan.has_value(), places, " places of ", desc.ToString());
  return MultiplyF8Experts(stream, desc.products, products, *plan,
                           {.out = args.codes, .scales = args.scales, .kind = *KindOf(desc.kind)});
}

size_t ScratchBytes(const GroupedGate::Desc& desc, const ops::StepLimits& limits,
                    const device::DeviceFacts&) {
  return F8ScratchOf(limits.tokens * desc.products.top_k, desc.products.each.k, true).bytes;
}

}  // namespace

void RegisterGroupedGate(ops::OpTable& table) {
  table.Add<GroupedGate>({.name = "sm90_f8_grouped_gate",
                          .supports = &Supports,
                          .run = &Run,
                          .arithmetic = ops::Arithmetic::kAsReference,
                          .scratch_bytes = &ScratchBytes});
}

}  // namespace sluice::cuda
