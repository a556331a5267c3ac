#include <algorithm>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/kernel_support.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"

namespace sluice::cpu {
namespace {

using ops::IndexScores;

int64_t CeilDiv(int64_t value, int64_t step) { return (value + step - 1) / step; }

AttentionCall CallOf(const IndexScores::Desc& desc, const IndexScores::Args& args) {
  return {.q = args.q.ptr<float>(),
          .k = {args.kv.k.data, args.kv.k_scale.ptr<float>(), args.kv.k.strides[0],
                args.kv.k_scale.strides[0]},
          .q_stride = args.q.strides[0],
          .block_tokens = desc.kv.kernel_block_tokens,
          .group = desc.heads,
          .kv_heads = 1,
          .head_dim = desc.head_dim,
          .scale = desc.scale};
}

// Calls body(tile) for the tiles of a call, each with all positions that its last row sees.
template <class Body>
void ForIndexTiles(const IndexScores::Args& args, const Body& body) {
  const int32_t* start = args.query_start.ptr<int32_t>();
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    const int64_t begin = std::max<int64_t>(0, start[s] - args.first_row);
    const int64_t end = std::min(args.q.dims[0], start[s + 1] - args.first_row);
    IndexTile tile;
    tile.rows.context = args.context.ptr<int32_t>()[s];
    tile.rows.blocks = args.block_table.ptr<int32_t>() + s * args.block_table.strides[0];
    tile.weights_stride = args.weights.strides[0];
    tile.scores_stride = args.scores.strides[0];
    for (int64_t row = begin; row < end; row += kIndexTileTokens) {
      tile.rows.tokens = static_cast<int>(std::min<int64_t>(kIndexTileTokens, end - row));
      tile.rows.token = row;
      tile.rows.position = tile.rows.context - (start[s + 1] - args.first_row - row);
      tile.weights = args.weights.ptr<float>() + row * tile.weights_stride;
      tile.scores = args.scores.ptr<float>() + row * tile.scores_stride;
      body(tile);
    }
  }
}

int64_t SplitsOf(const IndexTile& tile) {
  return CeilDiv(tile.rows.position + tile.rows.tokens, kSplitTokens);
}

// A block of keys and the products of one token's heads with it.
int64_t IndexWorkFloats(const AttentionCall& call) {
  return int64_t{kBlockTokens} * (call.head_dim + call.group);
}

}  // namespace

Status RunIndexScores(const IndexKernels& kernels, device::Stream& stream,
                      const IndexScores::Desc& desc, const IndexScores::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  std::fill_n(args.lengths.ptr<int32_t>(), args.lengths.dims[0], 0);
  int64_t units = 0;
  ForIndexTiles(args, [&](const IndexTile& tile) {
    units += SplitsOf(tile);
    for (int i = 0; i < tile.rows.tokens; ++i)
      args.lengths.ptr<int32_t>()[tile.rows.token + i] =
          static_cast<int32_t>(tile.rows.position + i + 1);
  });
  CpuStream& cpu = AsCpu(stream);
  const AttentionCall call = CallOf(desc, args);
  const int64_t floats = CeilDiv(IndexWorkFloats(call), 16) * 16;
  const size_t units_bytes =
      static_cast<size_t>(CeilDiv(units * int64_t{sizeof(IndexTile)}, 64)) * 64;
  const size_t bytes =
      units_bytes + static_cast<size_t>(floats * cpu.pool().threads()) * sizeof(float);
  std::byte* scratch = cpu.Scratch(bytes);
  if (scratch == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("index_scores needs ", bytes, " bytes of scratch memory"));
  }
  auto* const tiles = reinterpret_cast<IndexTile*>(scratch);
  auto* const work = reinterpret_cast<float*>(scratch + units_bytes);
  IndexTile* next = tiles;
  ForIndexTiles(args, [&](IndexTile tile) {
    for (int64_t split = 0; split < SplitsOf(tile); ++split) {
      tile.first = split * kSplitTokens;
      *next++ = tile;
    }
  });
  const IndexKernels::Score score = KernelForKv(kernels, desc.kv.dtype);
  cpu.pool().ParallelFor(
      units, [&](int64_t i, int thread) { score(call, tiles[i], work + thread * floats); });
  return OkStatus();
}

}  // namespace sluice::cpu
