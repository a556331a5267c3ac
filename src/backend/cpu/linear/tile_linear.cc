#include "backend/cpu/linear/tile_linear.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "backend/cpu/linear/pack_tiles.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/thread_pool.h"

namespace sluice::cpu {

namespace {

using ops::Linear;

constexpr size_t kPanelBytes = size_t{1} << 20;
// Transposed at a time: a pair of groups in the second-level cache.
constexpr int64_t kChunkSteps = 64;
constexpr size_t kSumBytes = 4 * sizeof(float) * kTileSums;
// Of few rows, paired up at a time.
constexpr int64_t kPairSteps = 8;
// Up to here each thread rounds its own copy of x; that costs less than a barrier.
constexpr int64_t kCopyElements = 4096;

struct Problem {
  const TileKernels* kernels;
  const Linear::Desc* desc;
  const Linear::Args* args;
  int64_t steps;   // tiles of a group
  int64_t stride;  // bytes between rows of rounded x
  int64_t group_bytes;
  int64_t groups;
  int64_t first, rows;  // of x, in this panel
  int64_t padded;       // rows of rounded x; those past `rows` are zeros

  bool few() const { return rows <= kStreamRowsMax; }
};

const std::byte* GroupOf(const Problem& p, int64_t group) {
  return p.args->weight->data.data + group * p.group_bytes;
}

// Rows [begin, end) of the panel, as bf16.
void RoundRows(const Problem& p, int64_t begin, int64_t end, std::byte* panel) {
  const ops::Tensor& x = p.args->x;
  for (int64_t row = begin; row < end; ++row) {
    std::byte* out = panel + row * p.stride;
    const size_t used = row < p.rows ? 2 * static_cast<size_t>(p.desc->k) : 0;
    if (used > 0) {
      p.kernels->round(x.ptr<float>() + (p.first + row) * x.strides[0], p.desc->k, out);
    }
    std::memset(out + used, 0, static_cast<size_t>(p.stride) - used);
  }
}

// A tile of sums: 16 rows of x from `row` on, 16 of W.
void StoreTile(const Problem& p, const float* sums, int64_t row, int64_t group) {
  const Linear::Args& args = *p.args;
  const int64_t rows = std::min<int64_t>(kTileRows, p.rows - row);
  if (rows <= 0) return;
  const int64_t column = group * kTileRows, out_row = p.first + row;
  LinearSink sink;
  sink.stride = args.out.strides[0];
  sink.out = args.out.ptr<float>() + out_row * sink.stride + column;
  if (p.desc->bias) sink.bias = args.bias.ptr<float>() + column;
  if (p.desc->residual) {
    sink.residual_stride = args.residual.strides[0];
    sink.residual = args.residual.ptr<float>() + out_row * sink.residual_stride + column;
  }
  sink.rows = static_cast<int>(rows);
  sink.lanes = static_cast<int>(std::min<int64_t>(kTileRows, p.desc->n - column));
  p.kernels->store(sums, p.few() && p.rows > 1, sink);
}

// sums[tile][group] of 32 rows of x from `row` on.
void StoreTiles(const Problem& p, const float* sums, int64_t row, int64_t group, int groups) {
  for (int i = 0; i < 4; ++i) {
    if (i % 2 >= groups) continue;
    StoreTile(p, sums + i * kTileSums, row + i / 2 * kTileRows, group + i % 2);
  }
}

// A thread's memory: for many rows, transposed groups; then sums.
size_t GroupsBytes(const Problem& p) {
  return p.few() ? 0 : 2 * kTileBytes * static_cast<size_t>(std::min(p.steps, kChunkSteps));
}
size_t WorkBytes(const Problem& p) {
  const bool whole = p.few() || p.steps <= kChunkSteps;
  return GroupsBytes(p) + kSumBytes * (whole ? 1 : p.padded / kStreamRowsMax);
}

// Memory for x: rows as bf16, and, for few of them but more than one, pairs behind.
int64_t PairBytes(const Problem& p) {
  return p.few() && p.rows > 1 ? p.padded / kTileRows * p.steps * kTileBytes : 0;
}

TileColumns ColumnsOf(const Problem& p, const std::byte* panel) {
  if (p.rows == 1) return {panel, 4, 1, 64};
  const int tiles = static_cast<int>(p.padded / kTileRows);
  return {panel + p.padded * p.stride, 64, tiles, kTileBytes};
}

// Steps [begin, end) of the pairs of a panel of few rows.
void PairUp(const Problem& p, int64_t begin, int64_t end, std::byte* panel) {
  const int64_t tiles = p.padded / kTileRows;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    std::byte* out = panel + p.padded * p.stride + (begin * tiles + tile) * kTileBytes;
    p.kernels->transpose(panel + tile * kTileRows * p.stride + 64 * begin, p.stride, end - begin,
                         64, tiles * kTileBytes, out);
  }
}

// One or two groups times few rows.
void StreamGroups(const Problem& p, const std::byte* panel, int64_t group, int groups,
                  std::byte* work) {
  auto* sums = reinterpret_cast<float*>(work + GroupsBytes(p));
  p.kernels->stream(GroupOf(p, group), p.group_bytes, groups, p.steps, ColumnsOf(p, panel), sums);
  StoreTiles(p, sums, 0, group, groups);
}

// One or two groups times all rows of the panel.
void PassGroups(const Problem& p, const std::byte* panel, int64_t group, int groups,
                std::byte* work) {
  auto* sums = reinterpret_cast<float*>(work + GroupsBytes(p));
  const bool whole = p.steps <= kChunkSteps;
  for (int64_t step = 0; step < p.steps; step += kChunkSteps) {
    const int64_t steps = std::min(kChunkSteps, p.steps - step), bytes = steps * kTileBytes;
    for (int g = 0; g < groups; ++g) {
      p.kernels->transpose(GroupOf(p, group + g) + step * kTileBytes, 64, steps, kTileBytes,
                           kTileBytes, work + g * bytes);
    }
    for (int64_t row = 0; row < p.padded; row += kStreamRowsMax) {
      float* at = sums + (whole ? 0 : row / kStreamRowsMax * 4 * kTileSums);
      const TileLines x = {panel + row * p.stride + 64 * step, p.stride};
      p.kernels->multiply(work, bytes, groups, steps, x, step == 0, at);
      if (step + steps == p.steps) StoreTiles(p, at, row, group, groups);
    }
  }
}

// The calling thread takes pairs of groups until there are none left.
void TakeGroups(const Problem& p, const std::byte* panel, std::byte* work, int threads,
                std::atomic<int64_t>* next) {
  const int64_t columns = p.few() ? std::min<int64_t>(p.rows, kTileRows) : 0;
  p.kernels->configure(static_cast<int>(columns), static_cast<int>(p.few() ? p.rows - columns : 0));
  const int64_t pairs = (p.groups + 1) / 2;
  const int64_t parts = std::min(pairs, threads * kPartsPerThread);
  for (int64_t part; (part = next->fetch_add(1, std::memory_order_relaxed)) < parts;) {
    const Share share = ShareOf(pairs, part, parts);
    for (int64_t pair = share.begin; pair < share.end; ++pair) {
      const int64_t group = 2 * pair;
      const int groups = static_cast<int>(std::min<int64_t>(2, p.groups - group));
      if (p.few()) {
        StreamGroups(p, panel, group, groups, work);
      } else {
        PassGroups(p, panel, group, groups, work);
      }
    }
  }
  p.kernels->release();
}

// Inside a job: the threads at work do [0, count) in parts; returns when all is done.
template <class Body>
void TakeParts(int64_t count, int64_t part, std::atomic<int64_t>* next, std::atomic<int64_t>* done,
               const Body& body) {
  for (int64_t begin; (begin = next->fetch_add(part, std::memory_order_relaxed)) < count;) {
    const int64_t end = std::min(begin + part, count);
    body(begin, end);
    done->fetch_add(end - begin, std::memory_order_release);
  }
  WaitUntil(*done, count);
}

Status RunPanel(const Problem& p, CpuStream& stream) {
  ThreadPool& pool = stream.pool();
  const size_t panel_bytes = static_cast<size_t>(p.padded * p.stride + PairBytes(p));
  const size_t work_bytes = WorkBytes(p);
  const bool copies = p.rows * p.desc->k <= kCopyElements;
  const size_t panels = copies ? static_cast<size_t>(pool.threads()) : 1;
  const size_t bytes = panel_bytes * panels + work_bytes * pool.threads();
  std::byte* memory = stream.Scratch(bytes);
  if (memory == nullptr) {
    return {StatusCode::kOutOfMemory,
            StrCat("linear: no memory for ", bytes, " bytes of rounded activations")};
  }
  std::atomic<int64_t> next{0}, next_row{0}, rounded{0}, next_step{0}, paired{0};
  pool.Run([&](int thread, int threads) {
    std::byte* work = memory + panel_bytes * panels + work_bytes * thread;
    std::byte* panel = memory + (copies ? panel_bytes * thread : 0);
    if (copies) {
      RoundRows(p, 0, p.padded, panel);
      if (p.few() && p.rows > 1) PairUp(p, 0, p.steps, panel);
    } else {
      TakeParts(p.padded, kTileRows, &next_row, &rounded,
                [&](int64_t begin, int64_t end) { RoundRows(p, begin, end, panel); });
      if (p.few() && p.rows > 1) {
        TakeParts(p.steps, kPairSteps, &next_step, &paired,
                  [&](int64_t begin, int64_t end) { PairUp(p, begin, end, panel); });
      }
    }
    TakeGroups(p, panel, work, threads, &next);
  });
  return OkStatus();
}

}  // namespace

int64_t TilePanelRows(int64_t m, int64_t row_bytes) {
  if (m <= kStreamRowsMax) return m;
  const int64_t fit = static_cast<int64_t>(kPanelBytes) / row_bytes / kStreamRowsMax;
  const int64_t panels_rows = std::max<int64_t>(fit, 1) * kStreamRowsMax;
  // Panels of nearly equal size: the groups are expanded once for each.
  const int64_t panels = (m + panels_rows - 1) / panels_rows;
  const int64_t rows = (m + panels - 1) / panels;
  return (rows + kStreamRowsMax - 1) / kStreamRowsMax * kStreamRowsMax;
}

Status RunTileLinear(CpuStream& stream, const Linear::Desc& desc, const Linear::Args& args,
                     const TileKernels& kernels) {
  const int64_t m = args.x.dims[0];
  Problem p = {};
  p.kernels = &kernels;
  p.desc = &desc;
  p.args = &args;
  p.steps = (desc.k + kTileElements - 1) / kTileElements;
  // An odd number of cache lines, so that rows don't share the cache's sets.
  p.stride = 64 * (p.steps | 1);
  p.group_bytes = static_cast<int64_t>(TileGroupBytes(desc.k));
  p.groups = (desc.n + kTileRows - 1) / kTileRows;
  const int64_t panel_rows = TilePanelRows(m, p.stride);
  for (p.first = 0; p.first < m; p.first += panel_rows) {
    p.rows = std::min(panel_rows, m - p.first);
    const int64_t unit = p.rows <= kTileRows ? kTileRows : kStreamRowsMax;
    p.padded = p.rows == 1 ? 1 : (p.rows + unit - 1) / unit * unit;
    SLUICE_RETURN_IF_ERROR(RunPanel(p, stream));
  }
  return OkStatus();
}

}  // namespace sluice::cpu
