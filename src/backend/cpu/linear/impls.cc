#include "backend/cpu/linear/impls.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernel_support.h"
#include "backend/cpu/linear/pack.h"
#include "backend/cpu/linear/pack_tiles.h"
#include "backend/cpu/linear/packed.h"
#include "backend/cpu/linear/row_split.h"
#include "backend/cpu/linear/tile_linear.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/linear.h"

namespace sluice::cpu {

namespace {

using ops::Linear;

// Quantized x of one pass over W stays in a core's second-level cache beside a group of weights.
constexpr size_t kPanelBytes = size_t{1} << 20;
// Unpacked groups of one pass stay in the first-level cache beside a tile of x.
constexpr size_t kPassBytes = size_t{24} << 10;
// Up to here each thread makes its own copy of the tiles; that costs less than a barrier.
constexpr int64_t kCopyElements = 4096;

constexpr int kLanesMax = 16;

size_t Align(size_t bytes) { return (bytes + 63) / 64 * 64; }

struct Problem {
  const LinearKernels* kernels;
  const Linear::Desc* desc;
  const Linear::Args* args;
  const ops::BlockFormat* format;  // null: a plain format
  int kernel;                      // index into RowKernels::block or ::plain
  RowSplit split;                  // of m
  int64_t steps;                   // of the kernels
  size_t row_bytes;                // of a tile, per row
  size_t group_bytes;
  size_t unpacked_bytes;  // of a group; 0: no kernel wants one
  int64_t pass_groups;    // that meet a tile of x one after the other
  int64_t groups;
  float tensor_scales[kLanesMax];  // of an F8 weight with one scale, for each lane
};

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
  const int64_t rows = std::min<int64_t>(kernels.rows, p.args->x.dims[0] - first);
  return {first, static_cast<int>(rows), &kernels};
}

void MakeTile(const Problem& p, const Tile& tile, std::byte* out) {
  const ops::Tensor& x = p.args->x;
  const TileSource source = {x.ptr<float>() + tile.first * x.strides[0], x.strides[0], p.desc->k,
                             tile.rows, tile.kernels->rows};
  if (p.format != nullptr) {
    tile.kernels->quantize(source, *p.format, out);
  } else {
    tile.kernels->copy(source, out);
  }
}

const std::byte* GroupOf(const Problem& p, int64_t group) {
  return p.args->weight->data.data + group * p.group_bytes;
}

// The scales of the rows of W that begin at `column`.
void SetScales(const Problem& p, int64_t column, LinearSink* sink) {
  const float* scales = p.args->weight->scales.ptr<float>();
  switch (p.desc->weight_scales) {
    case ops::WeightScales::kNone:
      return;
    case ops::WeightScales::kTensor:
      sink->scales = p.tensor_scales;
      return;
    case ops::WeightScales::kRow:
      sink->scales = scales + column;
      return;
    case ops::WeightScales::kBlock:  // whole groups of rows share a row of blocks
      sink->block_scales = scales + column / ops::kScaleBlock * p.args->weight->scales.strides[0];
      return;
  }
}

LinearKernel KernelOf(const Problem& p, const RowKernels& kernels) {
  if (p.format != nullptr) return kernels.block[p.kernel];
  return p.desc->weight_scales != ops::WeightScales::kNone ? kernels.scaled_f8
                                                           : kernels.plain[p.kernel];
}

void RunTile(const Problem& p, int64_t group, const std::byte* unpacked, const Tile& tile,
             const std::byte* in) {
  const Linear::Args& args = *p.args;
  const int lanes = p.kernels->lanes;
  const int64_t column = group * lanes;
  LinearSink sink;
  sink.stride = args.out.strides[0];
  sink.out = args.out.ptr<float>() + tile.first * sink.stride + column;
  if (p.desc->bias) sink.bias = args.bias.ptr<float>() + column;
  if (p.desc->residual) {
    sink.residual_stride = args.residual.strides[0];
    sink.residual = args.residual.ptr<float>() + tile.first * sink.residual_stride + column;
  }
  sink.rows = tile.rows;
  sink.lanes = static_cast<int>(std::min<int64_t>(lanes, p.desc->n - column));
  SetScales(p, column, &sink);
  KernelOf(p, *tile.kernels)(tile.kernels->unpacked ? unpacked : GroupOf(p, group), in, p.steps,
                             sink);
}

// Tiles [begin, end) of x, whose contents stand one after the other in `in`, against all of W: the
// calling thread takes parts until there are none left. `unpacked` is this thread's memory for a
// group.
void Multiply(const Problem& p, Share tiles, const std::byte* in, std::byte* unpacked, int threads,
              std::atomic<int64_t>* next) {
  const size_t tile_bytes = p.row_bytes * p.kernels->by_rows[p.split.full].rows;
  const int64_t count = tiles.end - tiles.begin;
  const int64_t wanted = threads * kPartsPerThread;
  // Few groups on many threads: the tiles are split as well.
  const int64_t tile_parts = std::clamp<int64_t>((wanted + p.groups - 1) / p.groups, 1, count);
  const int64_t group_parts = std::min(p.groups, wanted);
  const ManyRows* many = p.unpacked_bytes > 0 ? p.kernels->many : nullptr;
  if (many != nullptr && many->configure != nullptr) many->configure(p.format->sub);
  for (;;) {
    const int64_t part = next->fetch_add(1, std::memory_order_relaxed);
    if (part >= tile_parts * group_parts) break;
    const int64_t group_part = part / tile_parts, tile_part = part % tile_parts;
    const int64_t group_end = p.groups * (group_part + 1) / group_parts;
    const int64_t tile_end = count * (tile_part + 1) / tile_parts;
    for (int64_t group = p.groups * group_part / group_parts; group < group_end;) {
      const int64_t pass_end = std::min(group + p.pass_groups, group_end);
      if (many != nullptr) {
        for (int64_t i = group; i < pass_end; ++i) {
          many->unpack[p.kernel](GroupOf(p, i), p.steps, unpacked + (i - group) * p.unpacked_bytes);
        }
      }
      for (int64_t i = count * tile_part / tile_parts; i < tile_end; ++i) {
        const Tile tile = TileAt(p, tiles.begin + i);
        for (int64_t g = group; g < pass_end; ++g) {
          RunTile(p, g, unpacked + (g - group) * p.unpacked_bytes, tile, in + i * tile_bytes);
        }
      }
      group = pass_end;
    }
  }
  if (many != nullptr && many->release != nullptr) many->release();
}

Status OutOfScratch(size_t bytes) {
  return {StatusCode::kOutOfMemory,
          StrCat("linear: no memory for ", bytes, " bytes of quantized activations")};
}

Status RunProblem(const Problem& p, CpuStream& stream) {
  ThreadPool& pool = stream.pool();
  const int64_t tiles = p.split.tiles;
  const size_t tile_bytes = p.row_bytes * p.kernels->by_rows[p.split.full].rows;
  const bool copies = p.args->x.dims[0] * p.desc->k <= kCopyElements && tiles == 1;
  const int64_t panel =
      copies ? pool.threads()
             : std::clamp<int64_t>(static_cast<int64_t>(kPanelBytes / tile_bytes), 1, tiles);
  const size_t content_bytes = Align(tile_bytes * panel),
               group_bytes = Align(p.unpacked_bytes * p.pass_groups);
  const size_t bytes = content_bytes + group_bytes * pool.threads();
  std::byte* contents = stream.Scratch(bytes);
  if (contents == nullptr) return OutOfScratch(bytes);
  std::byte* groups = contents + content_bytes;
  std::atomic<int64_t> next{0};
  if (copies) {
    pool.Run([&](int thread, int threads) {
      std::byte* copy = contents + tile_bytes * thread;
      MakeTile(p, TileAt(p, 0), copy);
      Multiply(p, {0, 1}, copy, groups + group_bytes * thread, threads, &next);
    });
    return OkStatus();
  }
  for (int64_t begin = 0; begin < tiles; begin += panel) {
    const Share share = {begin, std::min(begin + panel, tiles)};
    std::atomic<int64_t> next_tile{begin}, made{begin};
    next.store(0, std::memory_order_relaxed);
    pool.Run([&](int thread, int threads) {
      for (int64_t i; (i = next_tile.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        MakeTile(p, TileAt(p, i), contents + (i - begin) * tile_bytes);
        made.fetch_add(1, std::memory_order_release);
      }
      WaitUntil(made, share.end);
      Multiply(p, share, contents, groups + group_bytes * thread, threads, &next);
    });
  }
  return OkStatus();
}

Status CheckPacked(const Linear::Desc& desc, const Linear::Args& args, ops::LayoutId layout,
                   size_t bytes) {
  SLUICE_RETURN_IF_ERROR(ops::CheckLinearArgs(desc, args, layout));
  if (args.weight->data.size() == static_cast<int64_t>(bytes)) return OkStatus();
  return InvalidArgument(
      StrCat("linear: ", args.weight->data.size(), " packed bytes, not ", bytes));
}

Status RunKernels(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args,
                  const LinearKernels& kernels, ops::LayoutId layout) {
  SLUICE_RETURN_IF_ERROR(CheckPacked(desc, args, layout, PackedBytes(desc, kernels.lanes)));
  if (args.x.dims[0] == 0) return OkStatus();
  Problem p = {};
  p.kernels = &kernels;
  p.desc = &desc;
  p.args = &args;
  p.format = ops::FindBlockFormat(desc.weight);
  p.pass_groups = 1;
  p.split = SplitRows(kernels, args.x.dims[0]);
  if (p.format != nullptr) {
    p.kernel = static_cast<int>(p.format - ops::kBlockFormats);
    p.steps = desc.k / kActivationBlock;
    p.row_bytes = p.steps * (36 + 4 * (kActivationBlock / p.format->sub));
    if (kernels.by_rows[p.split.full].unpacked) {
      p.unpacked_bytes = desc.k / p.format->sub * UnpackedBytes(*p.format);
      p.pass_groups = std::clamp<int64_t>(kPassBytes / p.unpacked_bytes, 1, 4);
    }
  } else {
    p.kernel = static_cast<int>(
        std::find(std::begin(kPlainFormats), std::end(kPlainFormats), desc.weight) - kPlainFormats);
    p.steps = desc.k;
    p.row_bytes = desc.k * sizeof(float);
  }
  p.group_bytes = GroupBytes(desc.weight, desc.k, kernels.lanes);
  p.groups = (desc.n + kernels.lanes - 1) / kernels.lanes;
  if (desc.weight_scales == ops::WeightScales::kTensor) {
    std::fill_n(p.tensor_scales, kLanesMax, *args.weight->scales.ptr<float>());
  }
  return RunProblem(p, AsCpu(stream));
}

ops::Support SupportsAtLeast(Isa isa, bool block_formats, const Linear::Desc& desc,
                             const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  if (!support.ok) return support;
  if ((ops::FindBlockFormat(desc.weight) != nullptr) != block_formats) {
    return ops::Support::No(StrCat("not for weights in ", sluice::Name(desc.weight)));
  }
  if (desc.x_scales != ops::ActivationScales::kNone) {
    return ops::Support::No("activations in F8, which this processor has no products for");
  }
  return ops::RefLinearSupports(desc, facts);
}

// The implementations of one instruction set: for block formats and for plain ones.
template <const LinearKernels& kBlockKernels, const LinearKernels& kPlainKernels,
          ops::LayoutId kLayout, int kLanes, Isa kIsa>
struct Interleaved {
  template <bool kBlockFormats>
  static ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts& facts) {
    return SupportsAtLeast(kIsa, kBlockFormats, desc, facts);
  }
  template <const LinearKernels& kKernels>
  static Status Run(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args) {
    return RunKernels(stream, desc, args, kKernels, kLayout);
  }
  static size_t Bytes(const Linear::Desc& desc) { return PackedBytes(desc, kLanes); }
  static Status Pack(const Linear::Desc& desc, int64_t first_row, std::span<const std::byte> rows,
                     std::span<std::byte> packed) {
    return PackRows(desc, kLanes, first_row, rows, packed);
  }

  static void Register(ops::OpTable& table, std::string_view block_name,
                       std::string_view plain_name) {
    if (IsaOf(table.facts().architecture) < kIsa) return;
    table.Add<Linear>({block_name, &Supports<true>, &Run<kBlockKernels>, ops::Arithmetic::kInt8});
    const ops::LinearPacking packing = {kLayout, kLanes, &Bytes, &Pack};
    table.Attach(block_name, packing);
    if (plain_name.empty()) return;
    table.Add<Linear>({plain_name, &Supports<false>, &Run<kPlainKernels>, ops::Arithmetic::kF32});
    table.Attach(plain_name, packing);
  }
};

// BF16 in matrix tiles.
struct Tiles {
  static ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts& facts) {
    if (desc.weight != DType::kBF16) {
      return ops::Support::No(StrCat("not for weights in ", sluice::Name(desc.weight)));
    }
    return SupportsAtLeast(Isa::kAmx, false, desc, facts);
  }
  static Status Run(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args) {
    SLUICE_RETURN_IF_ERROR(
        CheckPacked(desc, args, ops::LayoutId::kCpuTiles16, TilePackedBytes(desc)));
    return RunTileLinear(AsCpu(stream), desc, args, kAmxTileKernels);
  }

  static void Register(ops::OpTable& table) {
    if (IsaOf(table.facts().architecture) < Isa::kAmx) return;
    constexpr std::string_view kName = "amx_bf16_linear";
    table.Add<Linear>({kName, &Supports, &Run, ops::Arithmetic::kBf16});
    table.Attach(kName, ops::LinearPacking{ops::LayoutId::kCpuTiles16, kTileRows, &TilePackedBytes,
                                           &PackTileRows});
  }
};

// The vector kernels for few rows, then those for many.
LinearKernels WithManyRows(const LinearKernels& vector, const ManyRows& many) {
  LinearKernels kernels = vector;
  kernels.many = &many;
  kernels.by_rows[kernels.row_counts++] = many.tiles;
  return kernels;
}

const LinearKernels kAmxKernels = WithManyRows(kAvx512LinearKernels, kAmxManyRows);
const LinearKernels kAvx512Kernels = WithManyRows(kAvx512LinearKernels, kAvx512ManyRows);

using Amx =
    Interleaved<kAmxKernels, kAvx512LinearKernels, ops::LayoutId::kCpuInterleaved16, 16, Isa::kAmx>;
using Avx512 = Interleaved<kAvx512Kernels, kAvx512LinearKernels, ops::LayoutId::kCpuInterleaved16,
                           16, Isa::kAvx512>;
using Avx2 = Interleaved<kAvx2LinearKernels, kAvx2LinearKernels, ops::LayoutId::kCpuInterleaved8, 8,
                         Isa::kAvx2>;

}  // namespace

void RegisterLinear(ops::OpTable& table) {
  Amx::Register(table, "amx_int8_linear", {});
  Tiles::Register(table);
  Avx512::Register(table, "avx512_int8_linear", "avx512_f32_linear");
  Avx2::Register(table, "avx2_int8_linear", "avx2_f32_linear");
  table.Add<Linear>({.name = "ref_linear",
                     .supports = &ops::RefLinearSupports,
                     .run = &ops::RefLinear,
                     .slow = &ops::PlainLoops<Linear>});
}

}  // namespace sluice::cpu
