#include "backend/cuda/place_tokens/impls.h"

#include "backend/cuda/launch.h"
#include "backend/cuda/place_tokens/params.h"
#include "ops/place_tokens.h"

namespace sluice::cuda {
namespace {

Status RunPlaceTokens(device::Stream& stream, const ops::PlaceTokens::Desc& desc,
                      const ops::PlaceTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const PlaceTokensParams params = {
      .query_start = args.query_start.ptr<int32_t>(),
      .first = args.first.ptr<int32_t>(),
      .unsure = args.unsure.ptr<int32_t>(),
      .slots = args.slots.ptr<int32_t>(),
      .lengths = args.lengths.ptr<int32_t>(),
      .told_start = args.told_start.ptr<int32_t>(),
      .told_first = args.told_first.ptr<int32_t>(),
      .told = args.told.ptr<int32_t>(),
      .paths = args.paths.empty() ? nullptr : args.paths.ptr<int32_t>(),
      .tables = args.tables.ptr<int32_t>(),
      .positions = args.positions.ptr<int32_t>(),
      .context = args.context.ptr<int32_t>(),
      .kv_slots = args.kv_slots.ptr<int32_t>(),
      .block_table = args.block_table.ptr<int32_t>(),
      .tables_stride = args.tables.strides[0],
      .block_table_stride = args.block_table.strides[0],
      .path_stride = args.paths.empty() ? 0 : args.paths.strides[0],
      .tokens = args.positions.dims[0],
      .sequences = static_cast<int32_t>(args.first.dims[0]),
      .slot_count = static_cast<int32_t>(args.tables.dims[0]),
      .tables_width = static_cast<int32_t>(args.tables.dims[1]),
      .block_table_width = static_cast<int32_t>(args.block_table.dims[1]),
      .block_tokens = desc.block_tokens,
      .cache_block_tokens = desc.cache_block_tokens,
      .earlier = desc.earlier,
      .path_numbers = ops::kPathNumbers,
      .state = desc.state};
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(params.sequences);
  shape.block[0] = kPlaceTokensThreads;
  return Launch(stream, {"any_place_tokens", "any_place_tokens"}, shape, params);
}

}  // namespace

void RegisterPlaceTokens(ops::OpTable& table) {
  table.Add<ops::PlaceTokens>({"any_place_tokens", &ops::RefPlaceTokensSupports, &RunPlaceTokens});
}

}  // namespace sluice::cuda
