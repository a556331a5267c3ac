#include "backend/cpu/linear/problem.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/linear/pack.h"

namespace sluice::cpu {
namespace {

// Unpacked groups of one pass stay in the first-level cache beside a tile of x.
constexpr size_t kPassBytes = size_t{24} << 10;

// Rows [first, first + rows) of x, computed by `kernels`.
struct Tile {
  int64_t first;
  int rows;
  const RowKernels* kernels;
};

Tile TileAt(const Problem& p, int64_t index) {
  const bool tail = index == p.split.tiles - 1;
  const RowKernels& kernels = p.kernels->by_rows[tail ? p.split.tail : p.split.full];
  const int64_t first = index * p.kernels->by_rows[p.split.full].rows;
  const int64_t rows = std::min<int64_t>(kernels.rows, p.m - first);
  return {first, static_cast<int>(rows), &kernels};
}

const std::byte* GroupOf(const Problem& p, int64_t group) {
  return p.weight + group * p.group_bytes;
}

// The scales of the rows of W that begin at `column`.
void SetScales(const Problem& p, int64_t column, LinearSink* sink) {
  switch (p.desc->weight_scales) {
    case ops::WeightScales::kNone:
      return;
    case ops::WeightScales::kTensor:
      sink->scales = p.tensor_scales;
      return;
    case ops::WeightScales::kRow:
      sink->scales = p.scales + column;
      return;
    case ops::WeightScales::kBlock:  // whole groups of rows share a row of blocks
      sink->block_scales = p.scales + column / ops::kScaleBlock * p.scales_stride;
      return;
  }
}

LinearKernel KernelOf(const Problem& p, const RowKernels& kernels) {
  if (p.format != nullptr) return kernels.block[p.kernel];
  return p.desc->weight_scales != ops::WeightScales::kNone ? kernels.scaled_f8
                                                           : kernels.plain[p.kernel];
}

// Where the outputs of `tile` and of `groups` groups from `group` on go.
LinearSink SinkOf(const Problem& p, int64_t group, int groups, const Tile& tile) {
  const int lanes = p.kernels->lanes;
  const int64_t column = group * lanes;
  LinearSink sink;
  sink.stride = p.out_stride;
  sink.out = p.out + tile.first * sink.stride + column;
  if (p.bias != nullptr) sink.bias = p.bias + column;
  if (p.residual != nullptr) {
    sink.residual_stride = p.residual_stride;
    sink.residual = p.residual + tile.first * sink.residual_stride + column;
  }
  sink.rows = tile.rows;
  sink.lanes = static_cast<int>(std::min<int64_t>(groups * lanes, p.desc->n - column));
  SetScales(p, column, &sink);
  return sink;
}

void RunTile(const Problem& p, int64_t group, const std::byte* unpacked, const Tile& tile,
             const std::byte* in) {
  KernelOf(p, *tile.kernels)(tile.kernels->unpacked ? unpacked : GroupOf(p, group), in, p.steps,
                             SinkOf(p, group, 1, tile));
}

// Tiles times one pair of groups. Meanwhile the pair at `next` comes into the cache, a part of it
// with each tile.
void RunPair(const Problem& p, int64_t group, int64_t next, Share tiles, const std::byte* in) {
  const int64_t lines = std::clamp<int64_t>(p.groups - next, 0, 2) *
                        (static_cast<int64_t>(p.group_bytes) / kLineBytes);
  for (int64_t i = tiles.begin; i < tiles.end; ++i) {
    const Tile tile = TileAt(p, i);
    const std::byte* const contents = in + (i - tiles.begin) * p.tile_bytes();
    const LinearKernel pair = tile.kernels->plain_pair[p.kernel];
    if (pair == nullptr) {  // the last rows
      RunTile(p, group, nullptr, tile, contents);
      RunTile(p, group + 1, nullptr, tile, contents);
      continue;
    }
    LinearSink sink = SinkOf(p, group, 2, tile);
    const Share share = ShareOf(lines, i - tiles.begin, tiles.end - tiles.begin);
    sink.ahead_lines = share.end - share.begin;
    if (lines > 0) sink.ahead = GroupOf(p, next) + share.begin * kLineBytes;
    pair(GroupOf(p, group), contents, p.steps, sink);
  }
}

const ManyRows* ManyOf(const Problem& p) {
  return p.unpacked_bytes > 0 ? p.kernels->many : nullptr;
}

}  // namespace

Problem MakeProblem(const LinearKernels& kernels, const ops::Linear::Desc& desc,
                    const ops::PackedWeight& weight) {
  Problem p;
  p.kernels = &kernels;
  p.desc = &desc;
  p.format = ops::FindBlockFormat(desc.weight);
  if (p.format != nullptr) {
    p.kernel = static_cast<int>(p.format - ops::kBlockFormats);
    p.steps = desc.k / kActivationBlock;
    p.row_bytes = p.steps * (36 + 4 * (kActivationBlock / p.format->sub));
  } else {
    p.kernel = static_cast<int>(
        std::find(std::begin(kPlainFormats), std::end(kPlainFormats), desc.weight) - kPlainFormats);
    p.steps = desc.k;
    p.row_bytes = desc.k * sizeof(float);
  }
  p.group_bytes = GroupBytes(desc.weight, desc.k, kernels.lanes);
  p.groups = (desc.n + kernels.lanes - 1) / kernels.lanes;
  p.weight = weight.data.data;
  p.scales = weight.scales.ptr<float>();
  p.scales_stride = weight.scales.strides[0];
  if (desc.ordered) p.order = weight.order.ptr<int32_t>();
  if (desc.weight_scales == ops::WeightScales::kTensor) {
    std::fill_n(p.tensor_scales, kLanesMax, *p.scales);
  }
  return p;
}

void SetRows(int64_t m, Problem* p) {
  p->m = m;
  p->split = SplitRows(*p->kernels, m);
  p->unpacked_bytes = 0;
  p->pass_groups = 1;
  p->pairs = false;
  const RowKernels& full = p->kernels->by_rows[p->split.full];
  if (p->format == nullptr) {
    p->pairs =
        p->desc->weight_scales == ops::WeightScales::kNone && full.plain_pair[p->kernel] != nullptr;
    if (p->pairs) p->pass_groups = 2;
    return;
  }
  if (!full.unpacked) return;
  p->unpacked_bytes = p->desc->k / p->format->sub * UnpackedBytes(*p->format);
  p->pass_groups = std::clamp<int64_t>(kPassBytes / p->unpacked_bytes, 1, 4);
}

void MakeTile(const Problem& p, int64_t index, std::byte* out, float* gathered) {
  const Tile tile = TileAt(p, index);
  TileSource source = {p.x + tile.first * p.x_stride, p.x_stride, p.desc->k, tile.rows,
                       tile.kernels->rows};
  if (p.order != nullptr) {
    for (int row = 0; row < tile.rows; ++row) {
      const float* from = source.x + row * source.stride;
      float* to = gathered + row * p.desc->k;
      for (int64_t k = 0; k < p.desc->k; ++k) to[k] = from[p.order[k]];
    }
    source.x = gathered;
    source.stride = p.desc->k;
  }
  if (p.x_rows != nullptr) {
    source.x = p.x + p.x_rows[tile.first] * p.x_stride;
    if (tile.rows > 1) {
      for (int row = 0; row < tile.rows; ++row) {
        std::memcpy(gathered + row * p.desc->k, p.x + p.x_rows[tile.first + row] * p.x_stride,
                    static_cast<size_t>(p.desc->k) * sizeof(float));
      }
      source.x = gathered;
      source.stride = p.desc->k;
    }
  }
  if (p.format != nullptr) {
    tile.kernels->quantize(source, *p.format, out);
  } else {
    tile.kernels->copy(source, out);
  }
}

void MultiplyTiles(const Problem& p, Share groups, Share tiles, const std::byte* in,
                   std::byte* unpacked, int64_t next) {
  const ManyRows* many = ManyOf(p);
  const size_t tile_bytes = p.tile_bytes();
  for (int64_t group = groups.begin; group < groups.end;) {
    const int64_t pass_end = std::min(group + p.pass_groups, groups.end);
    if (p.pairs && pass_end - group == 2) {
      RunPair(p, group, pass_end < groups.end ? pass_end : next, tiles, in);
      group = pass_end;
      continue;
    }
    if (many != nullptr) {
      for (int64_t i = group; i < pass_end; ++i) {
        many->unpack[p.kernel](GroupOf(p, i), p.steps, unpacked + (i - group) * p.unpacked_bytes);
      }
    }
    for (int64_t i = tiles.begin; i < tiles.end; ++i) {
      const Tile tile = TileAt(p, i);
      for (int64_t g = group; g < pass_end; ++g) {
        RunTile(p, g, unpacked + (g - group) * p.unpacked_bytes, tile,
                in + (i - tiles.begin) * tile_bytes);
      }
    }
    group = pass_end;
  }
}

void BeginUnpacked(const Problem& p) {
  const ManyRows* many = ManyOf(p);
  if (many != nullptr && many->configure != nullptr) many->configure(p.format->sub);
}

void EndUnpacked(const Problem& p) {
  const ManyRows* many = ManyOf(p);
  if (many != nullptr && many->release != nullptr) many->release();
}

}  // namespace sluice::cpu
