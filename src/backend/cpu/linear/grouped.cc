#include "backend/cpu/linear/grouped.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "backend/cpu/linear/pack.h"
#include "backend/cpu/linear/problem.h"
#include "backend/cpu/parallel.h"

namespace sluice::cpu {
namespace {

using ops::GroupedLinear;

// Tiles of one wave stay in a core's second-level cache beside a group of weights.
constexpr size_t kWaveBytes = size_t{1} << 20;
// More experts than this are another wave; decode of one sequence has as many as a token takes.
constexpr int kUnitsMax = 64;

size_t Align(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Tiles of one expert in a wave.
struct Unit {
  Problem problem;
  Share tiles;               // of the problem
  int64_t first_tile = 0;    // of the wave
  size_t content_begin = 0;  // in the wave's memory
};

struct Wave {
  std::array<Unit, kUnitsMax> units;
  int count = 0;
  int64_t tiles = 0;
  size_t content_bytes = 0, pass_bytes = 0;

  bool empty() const { return count == 0; }
  bool full() const { return count == kUnitsMax || content_bytes >= kWaveBytes; }
};

// Of the wave's tiles the one of this number: its unit.
const Unit& UnitOf(const Wave& wave, int64_t tile) {
  const auto end = wave.units.begin() + wave.count;
  const auto after =
      std::upper_bound(wave.units.begin(), end, tile,
                       [](int64_t number, const Unit& unit) { return number < unit.first_tile; });
  return *(after - 1);
}

// The calling thread takes parts of the units' groups until there are none left.
void TakeParts(const Wave& wave, const std::byte* contents, std::byte* unpacked, int threads,
               std::atomic<int64_t>* next) {
  const int64_t groups = wave.units[0].problem.groups;
  const int64_t wanted = (threads * kPartsPerThread + wave.count - 1) / wave.count;
  const int64_t parts = std::clamp<int64_t>(wanted, 1, groups);
  const Problem* begun = nullptr;
  for (int64_t part; (part = next->fetch_add(1, std::memory_order_relaxed)) < parts * wave.count;) {
    const Unit& unit = wave.units[part / parts];
    if (begun == nullptr && unit.problem.unpacked_bytes > 0) {
      begun = &unit.problem;  // all experts have one number format
      BeginUnpacked(*begun);
    }
    const Share share = ShareOf(groups, part % parts, parts);
    MultiplyTiles(unit.problem, share, unit.tiles, contents + unit.content_begin, unpacked,
                  share.end);
  }
  if (begun != nullptr) EndUnpacked(*begun);
}

Status RunWave(CpuStream& stream, const Wave& wave, size_t gather_bytes) {
  ThreadPool& pool = stream.pool();
  const size_t own_bytes = Align(wave.pass_bytes) + gather_bytes;
  const size_t bytes = wave.content_bytes + own_bytes * static_cast<size_t>(pool.threads());
  std::byte* const contents = stream.Scratch(bytes);
  if (contents == nullptr) {
    return {StatusCode::kOutOfMemory,
            StrCat("grouped_linear: no memory for ", bytes, " bytes of the experts' activations")};
  }
  std::atomic<int64_t> next_tile{0}, made{0}, next{0};
  pool.Run([&](int thread, int threads) {
    std::byte* const own = contents + wave.content_bytes + own_bytes * static_cast<size_t>(thread);
    auto* const gathered = reinterpret_cast<float*>(own + Align(wave.pass_bytes));
    for (int64_t i; (i = next_tile.fetch_add(1, std::memory_order_relaxed)) < wave.tiles;) {
      const Unit& unit = UnitOf(wave, i);
      const int64_t tile = i - unit.first_tile;
      MakeTile(unit.problem, unit.tiles.begin + tile,
               contents + unit.content_begin + tile * unit.problem.tile_bytes(), gathered);
      made.fetch_add(1, std::memory_order_release);
    }
    WaitUntil(made, wave.tiles);
    TakeParts(wave, contents, own, threads, &next);
  });
  return OkStatus();
}

// Adds tiles of `problem` from `from` on, as many as there is room for; returns the first that is
// left.
int64_t AddTiles(const Problem& problem, int64_t from, Wave* wave) {
  const size_t tile_bytes = problem.tile_bytes();
  const size_t room = kWaveBytes - std::min(wave->content_bytes, kWaveBytes);
  const int64_t fit = std::max<int64_t>(1, static_cast<int64_t>(room / tile_bytes));
  const int64_t count = std::min(fit, problem.split.tiles - from);
  wave->units[wave->count++] = {problem, {from, from + count}, wave->tiles, wave->content_bytes};
  wave->tiles += count;
  wave->content_bytes += Align(tile_bytes * static_cast<size_t>(count));
  wave->pass_bytes = std::max(wave->pass_bytes, problem.pass_bytes());
  return from + count;
}

// That of one expert, whose places begin at `first`, or of one head.
void Aim(const GroupedLinear::Desc& desc, const GroupedLinear::Args& args, int64_t expert,
         int64_t first, const ops::PackedWeight& stack, Problem* p) {
  p->weight =
      stack.data.data + static_cast<size_t>(expert) * PackedBytes(desc.each, p->kernels->lanes);
  if (desc.each.weight_scales == ops::WeightScales::kRow) {
    p->scales = stack.scales.ptr<float>() + expert * desc.each.n;
  } else if (desc.each.weight_scales == ops::WeightScales::kBlock) {
    const int64_t blocks = desc.each.n / ops::kScaleBlock;
    p->scales = stack.scales.ptr<float>() + expert * blocks * p->scales_stride;
  }
  if (desc.each.bias) p->bias = args.bias.ptr<float>() + expert * args.bias.strides[0];
  p->x = args.x.ptr<float>() + (desc.by_columns ? expert * desc.x_step : 0);
  if (args.tokens.empty()) {
    p->x += first * p->x_stride;
  } else {
    p->x_rows = args.tokens.ptr<int32_t>() + first;
  }
  p->out = args.out.ptr<float>() + first * p->out_stride +
           (desc.by_columns ? expert * desc.out_step : 0);
}

}  // namespace

Status RunGroupedLinear(CpuStream& stream, const GroupedLinear::Desc& desc,
                        const GroupedLinear::Args& args, const LinearKernels& kernels) {
  const int32_t* starts = args.starts.ptr<int32_t>();
  Problem problem = MakeProblem(kernels, desc.each, *args.weight);
  problem.x_stride = args.x.strides[0];
  problem.out_stride = args.out.strides[0];
  int rows_max = 0;
  for (int i = 0; i < kernels.row_counts; ++i) {
    rows_max = std::max(rows_max, kernels.by_rows[i].rows);
  }
  const size_t gather_bytes =
      args.tokens.empty()
          ? 0
          : Align(static_cast<size_t>(rows_max) * static_cast<size_t>(desc.each.k) * sizeof(float));
  Wave wave;
  for (int64_t expert = 0; expert < desc.experts; ++expert) {
    const int64_t first = desc.by_columns ? 0 : starts[expert];
    const int64_t rows = desc.by_columns ? args.out.dims[0] : starts[expert + 1] - first;
    if (rows == 0) continue;
    SetRows(rows, &problem);
    Aim(desc, args, expert, first, *args.weight, &problem);
    for (int64_t tile = 0; tile < problem.split.tiles;) {
      tile = AddTiles(problem, tile, &wave);
      if (!wave.full()) continue;
      SLUICE_RETURN_IF_ERROR(RunWave(stream, wave, gather_bytes));
      wave.count = 0;
      wave.tiles = 0;
      wave.content_bytes = wave.pass_bytes = 0;
    }
  }
  return wave.empty() ? OkStatus() : RunWave(stream, wave, gather_bytes);
}

}  // namespace sluice::cpu
