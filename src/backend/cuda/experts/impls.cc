#include "backend/cuda/experts/impls.h"

#include <limits>

#include "backend/cuda/alignment.h"
#include "backend/cuda/by_type.h"
#include "backend/cuda/experts/route_params.h"
#include "ops/experts.h"
#include "ops/fake_balance_experts.h"
#include "ops/map_experts.h"

namespace sluice::cuda {
namespace {

using ops::CombineExperts;
using ops::FakeBalanceExperts;
using ops::GroupExperts;
using ops::MapExperts;
using ops::RouteExperts;
using ops::ScaleExperts;

constexpr KernelByType kCombine =
    SLUICE_KERNEL_BY_TYPE("any_f32_combine_experts", "any_f32_combine_experts");
constexpr KernelByType kScale =
    SLUICE_KERNEL_BY_TYPE("any_f32_scale_experts", "any_f32_scale_experts");
constexpr int64_t kTokensMax = 65535;  // thread blocks in a grid's second dimension

static_assert(kRouteTopKMax == ops::kExpertsPerTokenMax);
static_assert(ops::kExpertsMax <= 32 * 32, "a lane keeps its experts as the bits of one word");

Status RunRoute(device::Stream& stream, const RouteExperts::Desc& desc,
                const RouteExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  RouteExpertsParams params = RouteParamsOf(desc, args.bias, args.scales);
  params.logits = args.logits.ptr<float>();
  params.logits_stride = args.logits.strides[0];
  params.ids = args.ids.ptr<int32_t>();
  params.ids_stride = args.ids.strides[0];
  params.weights = args.weights.ptr<float>();
  params.weights_stride = args.weights.strides[0];
  params.tokens = args.logits.dims[0];
  const LaunchShape shape = {.grid = {BlocksFor(params.tokens, kRouteWarps)},
                             .block = {kRouteWarps * 32},
                             .shared_bytes = kRouteWarps * RouteBytes(desc.experts, desc.groups)};
  return Launch(stream, {"any_f32_route_experts", "any_f32_route_experts"}, shape, params);
}

Status RunFakeBalance(device::Stream& stream, const FakeBalanceExperts::Desc& desc,
                      const FakeBalanceExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const FakeBalanceExpertsParams params = {.ids = args.ids.ptr<int32_t>(),
                                           .weights = args.weights.ptr<float>(),
                                           .ids_stride = args.ids.strides[0],
                                           .weights_stride = args.weights.strides[0],
                                           .tokens = args.ids.dims[0],
                                           .experts = desc.experts,
                                           .top_k = desc.top_k};
  const LaunchShape shape = {.grid = {BlocksFor(params.tokens * desc.top_k, kFakeBalanceThreads)},
                             .block = {kFakeBalanceThreads}};
  return Launch(stream, {"any_fake_balance_experts", "any_fake_balance_experts"}, shape, params);
}

Status RunMap(device::Stream& stream, const MapExperts::Desc& desc, const MapExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const MapExpertsParams params = {.token_ids = args.token_ids.ptr<int32_t>(),
                                   .positions = args.positions.ptr<int32_t>(),
                                   .map = args.map.ptr<int32_t>(),
                                   .ids = args.ids.ptr<int32_t>(),
                                   .counts = args.counts.ptr<uint32_t>(),
                                   .counted = args.counted.ptr<int32_t>(),
                                   .ids_stride = args.ids.strides[0],
                                   .tokens = args.ids.dims[0],
                                   .experts = desc.experts,
                                   .top_k = desc.top_k};
  const LaunchShape shape = {.grid = {BlocksFor(params.tokens * desc.top_k, kMapThreads)},
                             .block = {kMapThreads}};
  return Launch(stream, {"any_map_experts", "any_map_experts"}, shape, params);
}

Status RunGroup(device::Stream& stream, const GroupExperts::Desc& desc,
                const GroupExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t count = args.ids.dims[0] * desc.top_k;
  if (count > std::numeric_limits<int32_t>::max() / 2)
    return InvalidArgument(StrCat("group_experts: ", args.ids.dims[0], " tokens are too many"));
  const GroupExpertsParams params = {.ids = args.ids.ptr<int32_t>(),
                                     .starts = args.starts.ptr<int32_t>(),
                                     .tokens = args.tokens.ptr<int32_t>(),
                                     .places = args.places.ptr<int32_t>(),
                                     .counts = args.counts.ptr<uint32_t>(),
                                     .counted = args.counted.ptr<int32_t>(),
                                     .ids_stride = args.ids.strides[0],
                                     .places_stride = args.places.strides[0],
                                     .count = static_cast<int32_t>(count),
                                     .experts = desc.experts,
                                     .top_k = desc.top_k};
  const LaunchShape shape = {.grid = {static_cast<unsigned>(desc.experts)},
                             .block = {kGroupWarps * 32}};
  return Launch(stream, {"any_group_experts", "any_group_experts"}, shape, params);
}

Status RunScale(device::Stream& stream, const ScaleExperts::Desc& desc,
                const ScaleExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t tokens = args.weights.dims[0];
  if (tokens > kTokensMax) {
    return InvalidArgument(StrCat("scale_experts: ", tokens, " tokens are more than ", kTokensMax));
  }
  const ScaleExpertsParams params = {.x = args.x.data,
                                     .weights = args.weights.ptr<float>(),
                                     .places = args.places.ptr<int32_t>(),
                                     .x_stride = args.x.strides[0],
                                     .weights_stride = args.weights.strides[0],
                                     .places_stride = args.places.strides[0],
                                     .width = desc.width,
                                     .top_k = desc.top_k,
                                     .wide = RowsBeginAt(args.x, 16) ? 1u : 0u};
  const LaunchShape shape = {
      .grid = {BlocksFor(desc.width, kScaleThreads * 8), static_cast<unsigned>(tokens)},
      .block = {kScaleThreads}};
  SLUICE_RETURN_IF_ERROR(Launch(stream, kScale(desc.activation), shape, params));
  const ResetWeightsParams reset = {.weights = args.weights.ptr<float>(),
                                    .weights_stride = args.weights.strides[0],
                                    .tokens = tokens,
                                    .top_k = desc.top_k};
  const LaunchShape choices = {.grid = {BlocksFor(tokens * desc.top_k, kScaleThreads)},
                               .block = {kScaleThreads}};
  return Launch(stream, {"any_f32_scale_experts", "any_f32_reset_weights"}, choices, reset);
}

Status RunCombine(device::Stream& stream, const CombineExperts::Desc& desc,
                  const CombineExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t tokens = args.out.dims[0];
  if (tokens > kTokensMax) {
    return InvalidArgument(
        StrCat("combine_experts: ", tokens, " tokens are more than ", kTokensMax));
  }
  const CombineExpertsParams params = {
      .y = args.y.ptr<float>(),
      .weights = args.weights.ptr<float>(),
      .places = args.places.ptr<int32_t>(),
      .residual = desc.residual ? args.residual.data : nullptr,
      .out = args.out.data,
      .y_stride = args.y.strides[0],
      .weights_stride = args.weights.strides[0],
      .places_stride = args.places.strides[0],
      .residual_stride = desc.residual ? args.residual.strides[0] : 0,
      .out_stride = args.out.strides[0],
      .width = desc.width,
      .top_k = desc.top_k,
      .wide_y = RowsBeginAt(args.y, 16) ? 1u : 0u,
      .wide = RowsBeginAt(args.out, 16) && (!desc.residual || RowsBeginAt(args.residual, 16)) ? 1u
                                                                                              : 0u};
  const LaunchShape shape = {.grid = {BlocksFor(desc.width, kCombineThreads * kCombineEach),
                                      static_cast<unsigned>(tokens)},
                             .block = {kCombineThreads}};
  return Launch(stream, kCombine(desc.out), shape, params);
}

}  // namespace

void RegisterExperts(ops::OpTable& table) {
  table.Add<RouteExperts>(
      {"any_f32_route_experts", &ops::RefRouteExpertsSupports, &RunRoute, ops::Arithmetic::kF32});
  table.Add<FakeBalanceExperts>(
      {"any_fake_balance_experts", &ops::RefFakeBalanceExpertsSupports, &RunFakeBalance});
  table.Add<MapExperts>({"any_map_experts", &ops::RefMapExpertsSupports, &RunMap});
  table.Add<GroupExperts>({"any_group_experts", &ops::RefGroupExpertsSupports, &RunGroup});
  table.Add<ScaleExperts>(
      {"any_f32_scale_experts", &ops::RefScaleExpertsSupports, &RunScale, ops::Arithmetic::kF32});
  table.Add<CombineExperts>({"any_f32_combine_experts", &ops::RefCombineExpertsSupports,
                             &RunCombine, ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
