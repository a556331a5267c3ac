#include "backend/xpu/place_tokens/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/place_tokens.h"

namespace sluice::xpu {
namespace {

Status RunPlaceTokens(device::Stream& stream, const ops::PlaceTokens::Desc& desc,
                      const ops::PlaceTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const auto size = [](const ops::Tensor& t, int dim) { return static_cast<int32_t>(t.dims[dim]); };
  if (args.first.dims[0] == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), 64);
  const LaunchShape shape{{static_cast<size_t>(args.first.dims[0]), 1, 1},
                          static_cast<size_t>(items)};
  return Launch(stream, {"place_tokens/any_place_tokens", "any_place_tokens"},
                StrCat("-D ITEMS=", items), shape, args.query_start.data, args.first.data,
                args.unsure.data, args.slots.data, args.lengths.data, args.told_start.data,
                args.told_first.data, args.told.data, args.tables.data, RowStride(args.tables),
                size(args.tables, 0), size(args.tables, 1), args.positions.data, args.context.data,
                args.kv_slots.data, args.block_table.data, RowStride(args.block_table),
                size(args.block_table, 1), size(args.first, 0), size(args.positions, 0),
                desc.block_tokens, desc.cache_block_tokens, desc.earlier,
                static_cast<int32_t>(desc.state), args.paths.data, RowStride(args.paths),
                args.paths.empty() ? 0 : 1);
}

}  // namespace

void RegisterPlaceTokens(ops::OpTable& table) {
  table.Add<ops::PlaceTokens>({"any_place_tokens", &ops::RefPlaceTokensSupports, &RunPlaceTokens});
}

}  // namespace sluice::xpu
