#include "backend/cpu/linear/impls.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "backend/cpu/isa.h"
#include "backend/cpu/linear/pack.h"
#include "backend/cpu/linear/packed.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"
#include "ops/linear.h"

namespace sluice::cpu {

namespace {

using ops::Linear;

// Quantized x of one pass over W stays in a core's second-level cache beside a group of weights.
constexpr size_t kPanelBytes = size_t{1} << 20;
// Up to here each thread makes its own copy of the tiles; that costs less than a barrier.
constexpr int64_t kCopyElements = 4096;
// Parts per thread, so that a thread that was interrupted does not hold up the others.
constexpr int64_t kPartsPerThread = 4;

// Grows and stays: a step in steady state allocates nothing. Null when memory does not suffice.
class Scratch {
 public:
  ~Scratch() { Free(); }
  std::byte* Get(size_t bytes) {
    if (bytes > bytes_) {
      Free();
      data_ = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
      bytes_ = data_ != nullptr ? bytes : 0;
    }
    return data_;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  void Free() {
    if (data_ != nullptr) ::operator delete(data_, kAlignment);
    data_ = nullptr;
  }
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

struct Problem {
  const LinearKernels* kernels;
  const Linear::Desc* desc;
  const Linear::Args* args;
  const ops::BlockFormat* format;  // null: a plain format
  const LinearKernel* by_rows;     // [kRowCounts]
  int64_t steps;                   // of the kernels
  size_t row_bytes;                // of a tile, per row
  size_t group_bytes;
  int64_t groups;
};

// Rows [first, first + rows) of x, computed by the kernel for rows of `count`.
struct Tile {
  int64_t first;
  int rows, count;
};

int rows_max(const Problem& p) { return p.kernels->rows[p.kernels->row_counts - 1]; }

Tile TileAt(const Problem& p, int64_t index, int64_t m) {
  const int64_t first = index * rows_max(p);
  const int rows = static_cast<int>(std::min<int64_t>(rows_max(p), m - first));
  int count = 0;
  while (p.kernels->rows[count] < rows) ++count;
  return {first, rows, count};
}

void MakeTile(const Problem& p, const Tile& tile, std::byte* out) {
  const ops::Tensor& x = p.args->x;
  const TileSource source = {x.ptr<float>() + tile.first * x.strides[0], x.strides[0], p.desc->k,
                             tile.rows, p.kernels->rows[tile.count]};
  if (p.format != nullptr) {
    p.kernels->quantize(source, *p.format, out);
  } else {
    p.kernels->copy(source, out);
  }
}

void RunTile(const Problem& p, int64_t group, const Tile& tile, const std::byte* in) {
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
  p.by_rows[tile.count](args.weight->data.data + group * p.group_bytes, in, p.steps, sink);
}

// Tiles [begin, end) of the m rows, whose contents stand one after the other in `in`, against all
// of W: the calling thread takes parts until there are none left.
void Multiply(const Problem& p, int64_t m, Share tiles, const std::byte* in, int threads,
              std::atomic<int64_t>* next) {
  const size_t tile_bytes = p.row_bytes * rows_max(p);
  const int64_t count = tiles.end - tiles.begin;
  const int64_t wanted = threads * kPartsPerThread;
  // Few groups on many threads: the tiles are split as well.
  const int64_t tile_parts = std::clamp<int64_t>((wanted + p.groups - 1) / p.groups, 1, count);
  const int64_t group_parts = std::min(p.groups, wanted);
  for (;;) {
    const int64_t part = next->fetch_add(1, std::memory_order_relaxed);
    if (part >= tile_parts * group_parts) return;
    const int64_t group_part = part / tile_parts, tile_part = part % tile_parts;
    const int64_t group_end = p.groups * (group_part + 1) / group_parts;
    const int64_t tile_end = count * (tile_part + 1) / tile_parts;
    for (int64_t group = p.groups * group_part / group_parts; group < group_end; ++group) {
      for (int64_t i = count * tile_part / tile_parts; i < tile_end; ++i) {
        RunTile(p, group, TileAt(p, tiles.begin + i, m), in + i * tile_bytes);
      }
    }
  }
}

Status OutOfScratch(size_t bytes) {
  return {StatusCode::kOutOfMemory,
          StrCat("linear: no memory for ", bytes, " bytes of quantized activations")};
}

Status RunProblem(const Problem& p, ThreadPool& pool) {
  thread_local Scratch scratch;
  const int64_t m = p.args->x.dims[0];
  const int64_t tiles = (m + rows_max(p) - 1) / rows_max(p);
  const size_t tile_bytes = p.row_bytes * rows_max(p);
  std::atomic<int64_t> next{0};
  if (m * p.desc->k <= kCopyElements && tiles == 1) {
    std::byte* copies = scratch.Get(tile_bytes * pool.threads());
    if (copies == nullptr) return OutOfScratch(tile_bytes * pool.threads());
    pool.Run([&](int thread, int threads) {
      std::byte* copy = copies + tile_bytes * thread;
      MakeTile(p, TileAt(p, 0, m), copy);
      Multiply(p, m, {0, 1}, copy, threads, &next);
    });
    return OkStatus();
  }
  const int64_t panel =
      std::clamp<int64_t>(static_cast<int64_t>(kPanelBytes / tile_bytes), 1, tiles);
  std::byte* contents = scratch.Get(tile_bytes * panel);
  if (contents == nullptr) return OutOfScratch(tile_bytes * panel);
  for (int64_t begin = 0; begin < tiles; begin += panel) {
    const Share share = {begin, std::min(begin + panel, tiles)};
    std::atomic<int64_t> next_tile{begin};
    next.store(0, std::memory_order_relaxed);
    pool.Run([&](int, int threads) {
      for (int64_t i; (i = next_tile.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        MakeTile(p, TileAt(p, i, m), contents + (i - begin) * tile_bytes);
      }
      pool.Barrier();
      Multiply(p, m, share, contents, threads, &next);
    });
  }
  return OkStatus();
}

Status RunKernels(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args,
                  const LinearKernels& kernels, ops::LayoutId layout) {
  SLUICE_RETURN_IF_ERROR(ops::CheckLinearArgs(desc, args, layout));
  if (args.weight->data.size() != static_cast<int64_t>(PackedBytes(desc, kernels.lanes))) {
    return InvalidArgument(StrCat("linear: ", args.weight->data.size(), " packed bytes, not ",
                                  PackedBytes(desc, kernels.lanes)));
  }
  if (args.x.dims[0] == 0) return OkStatus();
  Problem p = {};
  p.kernels = &kernels;
  p.desc = &desc;
  p.args = &args;
  p.format = ops::FindBlockFormat(desc.weight);
  if (p.format != nullptr) {
    p.by_rows = kernels.block[p.format - ops::kBlockFormats];
    p.steps = desc.k / kActivationBlock;
    p.row_bytes = p.steps * (36 + 4 * (kActivationBlock / p.format->sub));
  } else {
    p.by_rows =
        kernels.plain[std::find(std::begin(kPlainFormats), std::end(kPlainFormats), desc.weight) -
                      kPlainFormats];
    p.steps = desc.k;
    p.row_bytes = desc.k * sizeof(float);
  }
  p.group_bytes = GroupBytes(desc.weight, desc.k, kernels.lanes);
  p.groups = (desc.n + kernels.lanes - 1) / kernels.lanes;
  return RunProblem(p, AsCpu(stream).pool());
}

ops::Support SupportsAtLeast(Isa isa, bool block_formats, const Linear::Desc& desc,
                             const device::DeviceFacts& facts) {
  if (IsaOf(facts.architecture) < isa) {
    return ops::Support::No(StrCat("needs ", Name(isa), ", this device runs ", facts.architecture));
  }
  if ((ops::FindBlockFormat(desc.weight) != nullptr) != block_formats) {
    return ops::Support::No(StrCat("not for weights in ", sluice::Name(desc.weight)));
  }
  return ops::RefLinearSupports(desc, facts);
}

// The implementations of one instruction set.
template <const LinearKernels& kKernels, ops::LayoutId kLayout, int kLanes, Isa kIsa>
struct Interleaved {
  template <bool kBlockFormats>
  static ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts& facts) {
    return SupportsAtLeast(kIsa, kBlockFormats, desc, facts);
  }
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
    table.Add<Linear>({block_name, &Supports<true>, &Run});
    table.Add<Linear>({plain_name, &Supports<false>, &Run});
    const ops::LinearPacking packing = {kLayout, kLanes, &Bytes, &Pack};
    table.Attach(block_name, packing);
    table.Attach(plain_name, packing);
  }
};

using Avx512 =
    Interleaved<kAvx512LinearKernels, ops::LayoutId::kCpuInterleaved16, 16, Isa::kAvx512>;
using Avx2 = Interleaved<kAvx2LinearKernels, ops::LayoutId::kCpuInterleaved8, 8, Isa::kAvx2>;

}  // namespace

void RegisterLinear(ops::OpTable& table) {
  Avx512::Register(table, "avx512_int8_linear", "avx512_f32_linear");
  Avx2::Register(table, "avx2_int8_linear", "avx2_f32_linear");
  table.Add<Linear>({"ref_linear", &ops::RefLinearSupports, &ops::RefLinear});
}

}  // namespace sluice::cpu
