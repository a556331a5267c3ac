#include "backend/cpu/experts/impls.h"

#include "backend/cpu/experts/kernels.h"
#include "backend/cpu/kernel_support.h"
#include "backend/cpu/parallel.h"
#include "ops/experts.h"
#include "ops/fake_balance_experts.h"
#include "ops/map_experts.h"

namespace sluice::cpu {
namespace {

using ops::CombineExperts;
using ops::RouteExperts;

// The plain loops on every thread: with many threads one of them alone would take as long for the
// tokens of a prefill as all of them for the products.
Status RunRoute(device::Stream& stream, const RouteExperts::Desc& desc,
                const RouteExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  ForRows(AsCpu(stream), args.logits.dims[0], (desc.top_k + 10) * desc.experts,
          [&](int64_t begin, int64_t end) {
            RouteExperts::Args share = args;
            share.logits = args.logits.Rows(begin, end - begin);
            share.ids = args.ids.Rows(begin, end - begin);
            share.weights = args.weights.Rows(begin, end - begin);
            const Status status = ops::RefRouteExperts(stream, desc, share);
            CHECK(status.ok(), status.message());
          });
  return OkStatus();
}

ops::Support ScaleSupports(const ops::ScaleExperts::Desc& desc, const device::DeviceFacts& facts) {
  if (desc.activation != DType::kF32) return ops::Support::No("activations are not F32");
  return ops::RefScaleExpertsSupports(desc, facts);
}

Status RunScale(device::Stream& stream, const ops::ScaleExperts::Desc& desc,
                const ops::ScaleExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  ForRows(AsCpu(stream), args.weights.dims[0], desc.top_k * desc.width,
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin * desc.top_k; i < end * desc.top_k; ++i) {
              const int64_t token = i / desc.top_k, choice = i % desc.top_k;
              float& weight = args.weights.ptr<float>()[token * args.weights.strides[0] + choice];
              const int32_t place =
                  args.places.ptr<int32_t>()[token * args.places.strides[0] + choice];
              float* row = args.x.ptr<float>() + place * args.x.strides[0];
              for (int64_t c = 0; c < desc.width; ++c) row[c] *= weight;
              weight = 1.0f;
            }
          });
  return OkStatus();
}

template <Isa isa>
ops::Support CombineSupports(const CombineExperts::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.out, facts);
  return support.ok ? ops::RefCombineExpertsSupports(desc, facts) : support;
}

template <const ExpertsKernels& kernels>
Status RunCombine(device::Stream& stream, const CombineExperts::Desc& desc,
                  const CombineExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const CombineExpertsCall call = {.y = args.y.ptr<float>(),
                                   .weights = args.weights.ptr<float>(),
                                   .places = args.places.ptr<int32_t>(),
                                   .residual = args.residual.ptr<float>(),
                                   .out = args.out.ptr<float>(),
                                   .y_stride = args.y.strides[0],
                                   .weights_stride = args.weights.strides[0],
                                   .places_stride = args.places.strides[0],
                                   .residual_stride = args.residual.strides[0],
                                   .out_stride = args.out.strides[0],
                                   .width = desc.width,
                                   .top_k = desc.top_k};
  ForRows(AsCpu(stream), args.out.dims[0], (desc.top_k + 2) * desc.width,
          [&](int64_t begin, int64_t end) { kernels.combine(call, begin, end); });
  return OkStatus();
}

}  // namespace

void RegisterExperts(ops::OpTable& table) {
  if (IsaOf(table.facts().architecture) > Isa::kRef) {
    table.Add<RouteExperts>(
        {"any_f32_route_experts", &ops::RefRouteExpertsSupports, &RunRoute, ops::Arithmetic::kF32});
  }
  table.Add<RouteExperts>({.name = "ref_route_experts",
                           .supports = &ops::RefRouteExpertsSupports,
                           .run = &ops::RefRouteExperts,
                           .slow = &ops::PlainLoops<RouteExperts>});
  table.Add<ops::FakeBalanceExperts>({"ref_fake_balance_experts",
                                      &ops::RefFakeBalanceExpertsSupports,
                                      &ops::RefFakeBalanceExperts});
  // Looking up and counting, which take no time beside the products of the experts.
  table.Add<ops::MapExperts>({"ref_map_experts", &ops::RefMapExpertsSupports, &ops::RefMapExperts});
  table.Add<ops::GroupExperts>(
      {"ref_group_experts", &ops::RefGroupExpertsSupports, &ops::RefGroupExperts});

  if (IsaOf(table.facts().architecture) > Isa::kRef) {
    table.Add<ops::ScaleExperts>(
        {"any_f32_scale_experts", &ScaleSupports, &RunScale, ops::Arithmetic::kF32});
  }
  table.Add<ops::ScaleExperts>({.name = "ref_scale_experts",
                                .supports = &ops::RefScaleExpertsSupports,
                                .run = &ops::RefScaleExperts,
                                .slow = &ops::PlainLoops<ops::ScaleExperts>});

  table.Add<CombineExperts>({"avx512_f32_combine_experts", &CombineSupports<Isa::kAvx512>,
                             &RunCombine<kAvx512ExpertsKernels>, ops::Arithmetic::kF32});
  table.Add<CombineExperts>({"avx2_f32_combine_experts", &CombineSupports<Isa::kAvx2>,
                             &RunCombine<kAvx2ExpertsKernels>, ops::Arithmetic::kF32});
  table.Add<CombineExperts>({.name = "ref_combine_experts",
                             .supports = &ops::RefCombineExpertsSupports,
                             .run = &ops::RefCombineExperts,
                             .slow = &ops::PlainLoops<CombineExperts>});
}

}  // namespace sluice::cpu
