#include "backend/xpu/experts/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/experts.h"
#include "ops/fake_balance_experts.h"
#include "ops/map_experts.h"

namespace sluice::xpu {
namespace {

constexpr int kItemsOnGpu = 64;

// Programs differ by the experts that they have room for: few programs, and little memory of each
// work-item where there are few experts.
int RoomFor(int experts) {
  int room = 64;
  while (room < experts) room *= 4;
  return room;
}

std::string Options(int items, int experts) {
  return StrCat("-D ITEMS=", items, " -D EXPERTS=", RoomFor(experts));
}

Status RunRoute(device::Stream& stream, const ops::RouteExperts::Desc& desc,
                const ops::RouteExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t tokens = args.logits.dims[0];
  if (tokens == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), kItemsOnGpu);
  const int scoring = static_cast<int>(desc.scoring);
  const LaunchShape shape{{static_cast<size_t>((tokens + items - 1) / items), 1, 1},
                          static_cast<size_t>(items)};
  return Launch(stream, {"experts/any_f32_route_experts", "any_f32_route_experts"},
                StrCat(Options(items, desc.experts), " -D SCORING=", scoring), shape,
                args.logits.data, RowStride(args.logits), args.bias.data, args.ids.data,
                RowStride(args.ids), args.weights.data, RowStride(args.weights),
                static_cast<int32_t>(tokens), desc.experts, desc.top_k, desc.groups,
                desc.groups_kept, static_cast<int32_t>(desc.renormalize ? 1 : 0), desc.scale,
                args.scales.data);
}

Status RunFakeBalance(device::Stream& stream, const ops::FakeBalanceExperts::Desc& desc,
                      const ops::FakeBalanceExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t choices = args.ids.dims[0] * desc.top_k;
  if (choices == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), kItemsOnGpu);
  const LaunchShape shape{{static_cast<size_t>((choices + items - 1) / items), 1, 1},
                          static_cast<size_t>(items)};
  return Launch(stream, {"experts/any_fake_balance_experts", "any_fake_balance_experts"},
                StrCat("-D ITEMS=", items), shape, args.ids.data, RowStride(args.ids),
                args.weights.data, RowStride(args.weights), static_cast<int32_t>(args.ids.dims[0]),
                desc.experts, desc.top_k);
}

Status RunMap(device::Stream& stream, const ops::MapExperts::Desc& desc,
              const ops::MapExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t choices = args.ids.dims[0] * desc.top_k;
  if (choices == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), kItemsOnGpu);
  const LaunchShape shape{{static_cast<size_t>((choices + items - 1) / items), 1, 1},
                          static_cast<size_t>(items)};
  return Launch(stream, {"experts/any_map_experts", "any_map_experts"}, StrCat("-D ITEMS=", items),
                shape, args.token_ids.data, args.positions.data, args.map.data, args.ids.data,
                RowStride(args.ids), args.counts.data, args.counted.data,
                static_cast<int32_t>(args.ids.dims[0]), desc.experts, desc.top_k);
}

Status RunGroup(device::Stream& stream, const ops::GroupExperts::Desc& desc,
                const ops::GroupExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), kItemsOnGpu);
  return Launch(stream, {"experts/any_group_experts", "any_group_experts"},
                Options(items, desc.experts), {{1, 1, 1}, static_cast<size_t>(items)},
                args.ids.data, RowStride(args.ids), args.starts.data, args.tokens.data,
                args.places.data, RowStride(args.places), args.counts.data, args.counted.data,
                static_cast<int32_t>(args.ids.dims[0]), desc.experts, desc.top_k);
}

Status RunScale(device::Stream& stream, const ops::ScaleExperts::Desc& desc,
                const ops::ScaleExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  if (args.weights.dims[0] == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), kItemsOnGpu);
  const LaunchShape shape{
      {static_cast<size_t>(desc.top_k), static_cast<size_t>(args.weights.dims[0]), 1},
      static_cast<size_t>(items)};
  return Launch(stream, {"experts/any_f32_scale_experts", "any_f32_scale_experts"},
                StrCat("-D ITEMS=", items, " -D ACT=", ClName(desc.activation)), shape, args.x.data,
                RowStride(args.x), args.weights.data, RowStride(args.weights), args.places.data,
                RowStride(args.places), static_cast<int32_t>(desc.width));
}

Status RunCombine(device::Stream& stream, const ops::CombineExperts::Desc& desc,
                  const ops::CombineExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  if (args.out.dims[0] == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), 16);
  const LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.out.dims[0]), 1},
                          static_cast<size_t>(items)};
  return Launch(stream, {"experts/any_f32_combine_experts", "any_f32_combine_experts"},
                StrCat("-D ITEMS=", items, " -D PIECE=", kPieceElements,
                       " -D ACT=", ClName(desc.out), " -D RESIDUAL=", desc.residual ? 1 : 0),
                shape, args.y.data, RowStride(args.y), args.weights.data, RowStride(args.weights),
                args.places.data, RowStride(args.places), args.residual.data,
                RowStride(args.residual), args.out.data, RowStride(args.out), desc.top_k,
                static_cast<int32_t>(desc.width));
}

}  // namespace

void RegisterExperts(ops::OpTable& table) {
  table.Add<ops::RouteExperts>(
      {"any_f32_route_experts", &ops::RefRouteExpertsSupports, &RunRoute, ops::Arithmetic::kF32});
  table.Add<ops::FakeBalanceExperts>(
      {"any_fake_balance_experts", &ops::RefFakeBalanceExpertsSupports, &RunFakeBalance});
  table.Add<ops::MapExperts>({"any_map_experts", &ops::RefMapExpertsSupports, &RunMap});
  table.Add<ops::GroupExperts>({"any_group_experts", &ops::RefGroupExpertsSupports, &RunGroup});
  table.Add<ops::ScaleExperts>(
      {"any_f32_scale_experts", &ops::RefScaleExpertsSupports, &RunScale, ops::Arithmetic::kF32});
  table.Add<ops::CombineExperts>({"any_f32_combine_experts", &ops::RefCombineExpertsSupports,
                                  &RunCombine, ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
