#include "backend/cpu/linear/impls.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernel_support.h"
#include "backend/cpu/linear/grouped.h"
#include "backend/cpu/linear/pack.h"
#include "backend/cpu/linear/pack_tiles.h"
#include "backend/cpu/linear/packed.h"
#include "backend/cpu/linear/problem.h"
#include "backend/cpu/linear/row_linear.h"
#include "backend/cpu/linear/tile_linear.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"

namespace sluice::cpu {

namespace {

using ops::GroupedLinear;
using ops::Linear;

// Quantized x of one pass over W stays in a core's second-level cache beside a group of weights.
constexpr size_t kPanelBytes = size_t{1} << 20;
// A pair of groups takes long: 50 us where K is 1536 and x has 132 rows. Parts are small, so that
// the threads end together.
constexpr int64_t kPairPartsPerThread = 16;
// Up to here each thread makes its own copy of the tiles; that costs less than a barrier.
constexpr int64_t kCopyElements = 4096;

size_t Align(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Tiles [begin, end) of x, whose contents stand one after the other in `in`, against all of W: the
// calling thread takes parts until there are none left. `unpacked` is this thread's memory for
// groups.
void Multiply(const Problem& p, Share tiles, const std::byte* in, std::byte* unpacked, int threads,
              std::atomic<int64_t>* next) {
  const int64_t count = tiles.end - tiles.begin;
  const int64_t wanted = threads * (p.pairs ? kPairPartsPerThread : kPartsPerThread);
  const int64_t unit = p.pairs ? 2 : 1, units = (p.groups + unit - 1) / unit;
  // Few groups on many threads: the tiles are split as well.
  const int64_t tile_parts = std::clamp<int64_t>((wanted + units - 1) / units, 1, count);
  const int64_t group_parts = std::min(units, wanted);
  const auto groups_of = [&](int64_t part) {
    const Share share = ShareOf(units, part / tile_parts, group_parts);
    return Share{share.begin * unit, std::min(share.end * unit, p.groups)};
  };
  BeginUnpacked(p);
  for (;;) {
    const int64_t part = next->fetch_add(1, std::memory_order_relaxed);
    if (part >= tile_parts * group_parts) break;
    const Share mine = ShareOf(count, part % tile_parts, tile_parts);
    MultiplyTiles(p, groups_of(part), {tiles.begin + mine.begin, tiles.begin + mine.end},
                  in + mine.begin * p.tile_bytes(), unpacked,
                  groups_of(next->load(std::memory_order_relaxed)).begin);
  }
  EndUnpacked(p);
}

Status OutOfScratch(size_t bytes) {
  return {StatusCode::kOutOfMemory,
          StrCat("linear: no memory for ", bytes, " bytes of quantized activations")};
}

Status RunProblem(const Problem& p, CpuStream& stream) {
  ThreadPool& pool = stream.pool();
  const int64_t tiles = p.split.tiles;
  const size_t tile_bytes = p.tile_bytes();
  const bool copies = p.m * p.desc->k <= kCopyElements && tiles == 1;
  const int64_t panel =
      copies ? pool.threads()
             : std::clamp<int64_t>(static_cast<int64_t>(kPanelBytes / tile_bytes), 1, tiles);
  const size_t content_bytes = Align(tile_bytes * panel), group_bytes = Align(p.pass_bytes());
  const size_t gather_bytes =
      p.order == nullptr ? 0
                         : Align(static_cast<size_t>(p.kernels->by_rows[p.split.full].rows) *
                                 static_cast<size_t>(p.desc->k) * sizeof(float));
  const size_t groups_end = content_bytes + group_bytes * pool.threads();
  const size_t bytes = groups_end + gather_bytes * pool.threads();
  std::byte* contents = stream.Scratch(bytes);
  if (contents == nullptr) return OutOfScratch(bytes);
  std::byte* groups = contents + content_bytes;
  const auto gathered = [&](int thread) {
    return reinterpret_cast<float*>(contents + groups_end + gather_bytes * thread);
  };
  std::atomic<int64_t> next{0};
  if (copies) {
    pool.Run([&](int thread, int threads) {
      std::byte* copy = contents + tile_bytes * thread;
      MakeTile(p, 0, copy, gathered(thread));
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
        MakeTile(p, i, contents + (i - begin) * tile_bytes, gathered(thread));
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
  Problem p = MakeProblem(kernels, desc, *args.weight);
  SetRows(args.x.dims[0], &p);
  p.x = args.x.ptr<float>();
  p.x_stride = args.x.strides[0];
  if (desc.bias) p.bias = args.bias.ptr<float>();
  if (desc.residual) {
    p.residual = args.residual.ptr<float>();
    p.residual_stride = args.residual.strides[0];
  }
  p.out = args.out.ptr<float>();
  p.out_stride = args.out.strides[0];
  return RunProblem(p, AsCpu(stream));
}

ops::Support SupportsAtLeast(Isa isa, bool block_formats, const Linear::Desc& desc,
                             const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  if (!support.ok) return support;
  const ops::BlockFormat* format = ops::FindBlockFormat(desc.weight);
  if ((format != nullptr) != block_formats || (format != nullptr && format->codebook)) {
    return ops::Support::No(StrCat("not for weights in ", sluice::Name(desc.weight)));
  }
  if (desc.x_scales != ops::ActivationScales::kNone) {
    return ops::Support::No("activations in F8, which this processor has no products for");
  }
  return ops::RefLinearSupports(desc, facts);
}

// Of the implementations of one instruction set; without plain ones where a lower set's serve.
struct Names {
  std::string_view block, grouped_block, plain, grouped_plain;
};

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

  template <bool kBlockFormats>
  static ops::Support GroupedSupports(const GroupedLinear::Desc& desc,
                                      const device::DeviceFacts& facts) {
    const ops::Support support = SupportsAtLeast(kIsa, kBlockFormats, desc.each, facts);
    if (!support.ok) return support;
    const ops::Support whole = ops::WholeRowGroups(desc, kLanes);
    return whole.ok ? ops::RefGroupedLinearSupports(desc, facts) : whole;
  }
  template <const LinearKernels& kKernels>
  static Status RunGrouped(device::Stream& stream, const GroupedLinear::Desc& desc,
                           const GroupedLinear::Args& args) {
    SLUICE_RETURN_IF_ERROR(ops::CheckArgs(desc, args, kLayout));
    return RunGroupedLinear(AsCpu(stream), desc, args, kKernels);
  }

  static void Register(ops::OpTable& table, const Names& names) {
    if (IsaOf(table.facts().architecture) < kIsa) return;
    const ops::LinearPacking packing = {kLayout, kLanes, &Bytes, &Pack};
    table.Add<Linear>({names.block, &Supports<true>, &Run<kBlockKernels>, ops::Arithmetic::kInt8});
    table.Add<GroupedLinear>({names.grouped_block, &GroupedSupports<true>,
                              &RunGrouped<kBlockKernels>, ops::Arithmetic::kInt8});
    for (std::string_view name : {names.block, names.grouped_block}) table.Attach(name, packing);
    if (names.plain.empty()) return;
    table.Add<Linear>({names.plain, &Supports<false>, &Run<kPlainKernels>, ops::Arithmetic::kF32});
    table.Add<GroupedLinear>({names.grouped_plain, &GroupedSupports<false>,
                              &RunGrouped<kPlainKernels>, ops::Arithmetic::kF32});
    for (std::string_view name : {names.plain, names.grouped_plain}) table.Attach(name, packing);
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
  Amx::Register(table, {"amx_int8_linear", "amx_int8_grouped_linear", {}, {}});
  Tiles::Register(table);
  Avx512::Register(table, {"avx512_int8_linear", "avx512_int8_grouped_linear", "avx512_f32_linear",
                           "avx512_f32_grouped_linear"});
  Avx2::Register(table, {"avx2_int8_linear", "avx2_int8_grouped_linear", "avx2_f32_linear",
                         "avx2_f32_grouped_linear"});
  RegisterRowLinear(table);
  table.Add<Linear>({.name = "ref_linear",
                     .supports = &ops::RefLinearSupports,
                     .run = &ops::RefLinear,
                     .slow = &ops::PlainLoops<Linear>});
  table.Add<GroupedLinear>({.name = "ref_grouped_linear",
                            .supports = &ops::RefGroupedLinearSupports,
                            .run = &ops::RefGroupedLinear,
                            .slow = &ops::PlainLoops<GroupedLinear>});
}

}  // namespace sluice::cpu
