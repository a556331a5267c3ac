// A row of numbers spread over the shared memory of a cluster of thread blocks: sums over all of it
// and selection of its largest values by count or by weight, exactly and without sorting. All
// threads of the cluster call these functions together and get the same answers.
#pragma once

#include <cooperative_groups.h>

#include "backend/cuda/sampling/params.h"
#include "backend/cuda/sampling/rules.cuh"

namespace sluice::cuda {

enum class Join { kSum, kMax };

// A prefix of the row's values in descending order, ties by ascending id: those above `value`, and
// those equal to it whose id is below `ties_end`.
struct Cut {
  float value = -INFINITY;
  int64_t ties_end = INT64_MAX;

  __device__ bool Keeps(float x, int64_t id) const {
    return x > value || (x == value && id < ties_end);
  }
};

struct ClusterRow {
  static constexpr int kWarps = kSampleThreads / 32;
  static constexpr int kValues = 4;  // that one call of Gather joins at most

  struct Shared {
    uint32_t low[kSampleBins], high[kSampleBins];  // sums of bins
    uint64_t gathered[2][kSampleCluster][kValues];
    uint64_t warps[kWarps][kValues];
    int32_t listed;
    alignas(16) float values[4];  // [slice]
  };
  static_assert(sizeof(Shared) <= kSampleFixedBytes);

  Shared& shared;
  int64_t begin;             // the first id of the block's slice
  int n;                     // ids in it
  int warp_begin, warp_end;  // of the warp, within the slice
  int rank, warp, lane, parity = 0;
  float bin_max = 0.0f, bins_per_unit = 0.0f;

  __device__ ClusterRow(Shared& memory, int64_t vocab, int slice)
      : shared(memory),
        rank(static_cast<int>(cooperative_groups::this_cluster().block_rank())),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32) {
    begin = int64_t{rank} * slice;
    n = static_cast<int>(max(int64_t{0}, min(int64_t{slice}, vocab - begin)));
    const int chunk = slice / kWarps;
    warp_begin = min(warp * chunk, n);
    warp_end = min(warp_begin + chunk, n);
  }

  static __device__ void Sync() { cooperative_groups::this_cluster().sync(); }

  // Calls body(value, id) for the thread's numbers.
  template <class Body>
  __device__ void ForEach(const Body& body) const {
#pragma unroll 4
    for (int i = warp_begin + lane; i < warp_end; i += 32) body(shared.values[i], begin + i);
  }

  // Joins each of `mine` over a block's threads and brings every block's to all; the result is the
  // array of blocks, valid until the next call but one.
  template <Join join, int kCount>
  __device__ const uint64_t (*Gather(const uint64_t (&mine)[kCount]))[kValues] {
    static_assert(kCount <= kValues);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      uint64_t x = mine[k];
#pragma unroll
      for (int step = 16; step > 0; step /= 2) {
        const uint64_t other = __shfl_xor_sync(0xffffffffu, x, step);
        x = join == Join::kSum ? x + other : max(x, other);
      }
      if (lane == 0) shared.warps[warp][k] = x;
    }
    __syncthreads();
    if (threadIdx.x < kSampleCluster) {
      auto& to = *cooperative_groups::this_cluster().map_shared_rank(&shared, threadIdx.x);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        uint64_t x = shared.warps[0][k];
        for (int w = 1; w < kWarps; ++w) {
          const uint64_t other = shared.warps[w][k];
          x = join == Join::kSum ? x + other : max(x, other);
        }
        to.gathered[parity][rank][k] = x;
      }
    }
    Sync();
    const auto result = shared.gathered[parity];
    parity ^= 1;
    return result;
  }

  __device__ static uint64_t SumOf(const uint64_t (*all)[kValues], int k = 0) {
    uint64_t sum = 0;
    for (int r = 0; r < kSampleCluster; ++r) sum += all[r][k];
    return sum;
  }
  __device__ static uint64_t MaxOf(const uint64_t (*all)[kValues], int k = 0) {
    uint64_t largest = 0;
    for (int r = 0; r < kSampleCluster; ++r) largest = max(largest, all[r][k]);
    return largest;
  }

  template <class Measure>
  __device__ uint64_t Sum(const Measure& measure) {
    uint64_t sum = 0;
    ForEach([&](float x, int64_t id) { sum += measure(x, id); });
    return SumOf(Gather<Join::kSum, 1>({sum}));
  }

  // What one thread of the cluster knows; the others pass 0.
  __device__ uint64_t Share(uint64_t known) { return MaxOf(Gather<Join::kMax, 1>({known})); }

  // Bins for values from `largest` down to `least`, or as far as weights at `scale` are above zero
  // (and at 1, for counts). The last bin has all that is below.
  __device__ void SetBins(float largest, float least, float scale) {
    const float range = fminf(largest - least, -kWeightFloor * fmaxf(1.0f, 1.0f / scale));
    bin_max = largest;
    bins_per_unit = range > 0.0f && range < INFINITY ? kSampleBins / range : 0.0f;
    if (!(bins_per_unit < INFINITY)) bins_per_unit = 0.0f;
  }
  // Does not ascend with x.
  __device__ int Bin(float x) const {
    const float at = (bin_max - x) * bins_per_unit;
    return at < kSampleBins ? static_cast<int>(at) : kSampleBins - 1;
  }

  struct Found {
    int bin = -1;         // -1: all together fall short of the target
    uint64_t before = 0;  // sum of the bins below
  };

  // The first bin at which the running sum reaches `target`. bin(x, id) is negative for numbers
  // that don't count.
  template <class BinOf, class Measure>
  __device__ Found FindBin(const BinOf& bin_of, const Measure& measure, uint64_t target) {
    for (int i = threadIdx.x; i < kSampleBins; i += kSampleThreads)
      shared.low[i] = shared.high[i] = 0;
    __syncthreads();
    ForEach([&](float x, int64_t id) {
      const int bin = bin_of(x, id);
      if (bin < 0) return;
      const uint64_t add = measure(x, id);
      if (add != 0) AddTo(bin, add);
    });
    Sync();
    return FindInSums(target);
  }

  __device__ void AddTo(int bin, uint64_t add) {
    const uint32_t low = static_cast<uint32_t>(add);
    uint32_t high = static_cast<uint32_t>(add >> 32);
    const uint32_t was = atomicAdd(&shared.low[bin], low);
    high += was + low < was ? 1u : 0u;
    if (high != 0) atomicAdd(&shared.high[bin], high);
  }

  // Each block sums its share of the bins over all blocks; one of them has the crossing.
  __device__ Found FindInSums(uint64_t target) {
    constexpr int kOwn = kSampleBins / kSampleCluster;
    static_assert(kOwn <= kSampleThreads);
    const int t = threadIdx.x;
    uint64_t own = 0;
    if (t < kOwn) {
      for (int r = 0; r < kSampleCluster; ++r) {
        const auto& from = *cooperative_groups::this_cluster().map_shared_rank(&shared, r);
        own += uint64_t{from.high[rank * kOwn + t]} << 32;
        own += from.low[rank * kOwn + t];
      }
    }
    const auto all = Gather<Join::kSum, 1>({own});
    uint64_t before = 0, total = 0;
    for (int r = 0; r < kSampleCluster; ++r) {
      if (r < rank) before += all[r][0];
      total += all[r][0];
    }
    if (total < target) return {-1, total};
    uint64_t sum = own;  // inclusive over the block
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint64_t other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) shared.warps[warp][0] = sum;
    __syncthreads();
    for (int w = 0; w < warp; ++w) sum += shared.warps[w][0];
    __syncthreads();
    const uint64_t least = before + sum - own;
    const bool crosses = least < target && target <= before + sum;
    const uint64_t bin = crosses ? uint64_t(rank * kOwn + t) : 0, below = crosses ? least : 0;
    const auto found = Gather<Join::kMax, 2>({bin, below});
    return {static_cast<int>(MaxOf(found, 0)), MaxOf(found, 1)};
  }

  // The shortest prefix of what `kept` keeps whose measures sum to `target`; all of it if that is
  // less. REQUIRES: target > 0; SetBins; equal values have equal measures, -inf has 1 or 0.
  template <class Measure>
  __device__ Cut Select(const Cut& kept, const Measure& measure, uint64_t target) {
    const auto counted = [&](float x, int64_t id) { return x != -INFINITY && kept.Keeps(x, id); };
    Found found =
        FindBin([&](float x, int64_t id) { return counted(x, id) ? Bin(x) : -1; }, measure, target);
    if (found.bin < 0) {  // -inf comes last, where a prefix is measured by count
      if (measure(-INFINITY, 0) == 0) return kept;
      return CutTies(kept, -INFINITY, target - found.before);
    }
    const int in_bin = found.bin;
    uint64_t before = found.before;
    uint32_t low_key = 0xffffffffu, high_key = 0;
    ForEach([&](float x, int64_t id) {
      if (!counted(x, id) || Bin(x) != in_bin) return;
      low_key = min(low_key, OrderedBits(x));
      high_key = max(high_key, OrderedBits(x));
    });
    const auto keys = Gather<Join::kMax, 2>({uint64_t{~low_key}, uint64_t{high_key}});
    low_key = ~static_cast<uint32_t>(MaxOf(keys, 0));
    high_key = static_cast<uint32_t>(MaxOf(keys, 1));
    while (low_key != high_key) {
      constexpr int kBinBits = 11;
      static_assert(1 << kBinBits == kSampleBins);
      const int shift = max(0, 32 - __clz(high_key - low_key) - kBinBits);
      found = FindBin(
          [&](float x, int64_t id) {
            const uint32_t key = OrderedBits(x);
            if (key < low_key || key > high_key || !counted(x, id)) return -1;
            return static_cast<int>((high_key - key) >> shift);
          },
          measure, target - before);
      before += found.before;
      high_key -= static_cast<uint32_t>(max(found.bin, 0)) << shift;
      low_key = max(low_key, high_key - ((1u << shift) - 1u));
    }
    const float value = FromOrderedBits(high_key);
    const uint64_t one = measure(value, begin);
    return CutTies(kept, value, (target - before + one - 1) / one);
  }

  // All above `value` and the first `count` of those equal to it that `kept` keeps.
  __device__ Cut CutTies(const Cut& kept, float value, uint64_t count) {
    const auto ties = [&](float x, int64_t id) { return x == value && kept.Keeps(x, id); };
    uint64_t mine = 0;
    ForEach([&](float x, int64_t id) { mine += ties(x, id) ? 1 : 0; });
    const uint64_t of_warp = WarpSum(mine);
    const auto all = Gather<Join::kSum, 1>({mine});
    const Cut every = {value, kept.value == value ? kept.ties_end : INT64_MAX};
    if (count >= SumOf(all)) return every;
    uint64_t end = 0;
    if (const auto at = WarpOf(all, of_warp, count); at.mine) {
      uint64_t left = count - at.before;
      for (int i = warp_begin; i < warp_end; i += 32) {
        const int my = i + lane;
        unsigned mask = __ballot_sync(
            0xffffffffu, my < warp_end && ties(shared.values[min(my, n - 1)], begin + my));
        const unsigned found = __popc(mask);
        if (found < left) {
          left -= found;
          continue;
        }
        for (; left > 1; --left) mask &= mask - 1;
        if (lane == 0) end = static_cast<uint64_t>(begin + i + __ffs(mask));
        break;
      }
    }
    return {value, static_cast<int64_t>(Share(end))};
  }

  __device__ static uint64_t WarpSum(uint64_t x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
  }

  // Whether the running sum, by id, reaches `target` in this warp's numbers, and what comes before
  // them. `all` is Gather's sum of what the threads have, `of_warp` that of this warp.
  struct WarpAt {
    bool mine;
    uint64_t before;
  };
  __device__ WarpAt WarpOf(const uint64_t (*all)[kValues], uint64_t of_warp, uint64_t target) {
    if (lane == 0) shared.warps[warp][0] = of_warp;
    __syncthreads();
    uint64_t before = 0;
    for (int r = 0; r < rank; ++r) before += all[r][0];
    for (int w = 0; w < warp; ++w) before += shared.warps[w][0];
    __syncthreads();
    return {before < target && target <= before + of_warp, before};
  }

  // The first id at which the running sum of measures reaches `target`, and its value:
  // value bits << 32 | id. REQUIRES: 0 < target, at most the sum of all.
  template <class Measure>
  __device__ uint64_t FindId(const Measure& measure, const uint64_t (*all)[kValues],
                             uint64_t of_warp, uint64_t target) {
    uint64_t found = 0;
    if (const auto at = WarpOf(all, of_warp, target); at.mine) {
      uint64_t before = at.before;
      for (int i = warp_begin; i < warp_end; i += 32) {
        const int my = i + lane;
        const float x = shared.values[min(my, n - 1)];
        uint64_t sum = my < warp_end ? measure(x, begin + my) : 0;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
          const uint64_t other = __shfl_up_sync(0xffffffffu, sum, step);
          if (lane >= step) sum += other;
        }
        const unsigned reached = __ballot_sync(0xffffffffu, before + sum >= target);
        if (reached == 0) {
          before += __shfl_sync(0xffffffffu, sum, 31);
          continue;
        }
        if (lane == __ffs(reached) - 1)
          found = uint64_t{__float_as_uint(x)} << 32 | static_cast<uint32_t>(begin + my);
        break;
      }
    }
    return Share(found);
  }
};

}  // namespace sluice::cuda
