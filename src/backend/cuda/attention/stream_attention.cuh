// Decode: the rows of one token and KV head, at most 8, which all see the same (sm_90). Each warp
// takes one split after another by itself (stream_items.cuh), and its K and V out of a ring of its
// own that is filled ahead (stream_ring.cuh). Where a step has fewer splits than warps, some warps
// of each thread block stand back and leave their rings to the others. Codes are widened in
// registers.
//
// Products with K have the query's rows on the left, as elsewhere; those with V have V there, whose
// columns fill the 16 rows that a few heads would leave empty: half as many instructions and sums.
// A product is the sum of the same sixteen numbers either way, and the order of all else is that of
// mma_attention.cuh, so a row's bits are the same there and here.
#pragma once

#include "backend/cuda/attention/stream_codes.cuh"
#include "backend/cuda/attention/stream_ring.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"

namespace sluice::cuda {

template <class T, class Activation, KvForm kForm, int kDim>
struct StreamAttention {
  using Ring = StreamRing<kForm, kDim>;
  using Items = typename Ring::Items;
  static constexpr bool kCodes = Ring::kCodes;
  static constexpr int kBlock = Ring::kBlock, kBox = Ring::kBox, kParts = Ring::kParts;
  static constexpr int kBoxes = Ring::kBoxes, kBoxBytes = Ring::kBoxBytes;
  static constexpr int kBlocksPerSplit = Items::kBlocksPerSplit;
  static constexpr int kSteps = kDim / 16;

  struct Shared {
    typename Ring::Shared ring;
    StreamItemsShared items;
    RowState outer[kStreamWarps][32];  // of splits before the warp's
  };
  static_assert(sizeof(Shared) <= StreamSharedBytes(kDim, kCodes));

  static constexpr float kFactor = kPlacedFactor<kForm>, kRest = kPlacedRest<kForm>;

  const AttentionParams& p;
  Shared& shared;
  const int warp, lane;
  const float score_factor;  // that is left to be applied
  uint32_t lane_offset;      // in a box, of what the lane reads first
  Items items;
  Ring ring;
  Visible all;
  RowState state;
  float o[kSteps][4];
  uint32_t q[kSteps][4];  // left factors, of which the rows from 8 on are zeros

  __device__ StreamAttention(const AttentionParams& params, const KvMaps& maps, Shared& memory)
      : p(params),
        shared(memory),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32),
        score_factor(ScoresAreProducts(params) ? params.factor : 1.0f),
        items(params, memory.items),
        ring(params, maps, memory.ring) {
    const int position = kCodes ? lane % 16 : lane % 8 + lane / 16 * 8;
    const int chunk = kCodes ? lane / 16 : lane / 8 % 2;
    lane_offset = position * 128 + (chunk ^ position % 8) * 16;
  }

  __device__ const Tile& tile() const { return items.tile(); }

  __device__ void Run() {
    ring.Init();
    items.Rehearse();
    ring.Rehearse();
    all = {0, 2 * kSplitTokens};
    __syncthreads();
    // Code comes from the device's memory: weights have passed through its cache since the layer
    // before. So each warp goes through it once while the kernel in front of it still runs, with an
    // item without rows, which sees nothing: no memory of the device is read or written.
    bool rehearses = true;
    int2 blocks = {0, 1};
    for (;;) {
      LoadQ();
      Reset();
#pragma unroll 1
      for (int block = blocks.x; block < blocks.y; ++block) {
        Attend(block);
        if ((block + 1) % kBlocksPerSplit == 0 || block + 1 >= blocks.y)
          EndSplit(block / kBlocksPerSplit);
      }
      if (rehearses) {
        WaitForInputs();
        const int warps = items.Begin();
        if (warps == 0) return;
        ring.Begin(items, warps);
        rehearses = false;
      } else {
        items.Advance();
        ring.Advance(items);
      }
      if (tile().rows == 0) break;
      all = items.seen(items.turn());
      blocks = items.blocks(items.turn());
      items.LookAhead();
      ring.LookUp(items, items.turn() ^ 1);
      ring.Fill(items);
    }
    items.Leave();
  }

  // Two neighbouring numbers of the lane's query row.
  __device__ float2 QPair(const Activation* row, int column) const {
    if (row == nullptr || column >= p.head_dim) return {0.0f, 0.0f};
    const uint32_t pair = *reinterpret_cast<const uint32_t*>(row + column);
    const Activation* two = reinterpret_cast<const Activation*>(&pair);
    return {ToFloat(two[0]) * kFactor, ToFloat(two[1]) * kFactor};
  }
  // Sixteen products are added at once, in whatever order they stand: with codes it is the one in
  // which they come to a lane, four neighbours together.
  __device__ void LoadQ() {
    const int r = tile().row + lane / 4;
    const int64_t at = (tile().at.first_token + r / p.group) * p.q_stride +
                       (int64_t{tile().kv_head} * p.group + r % p.group) * p.head_dim;
    const Activation* const row =
        lane / 4 < tile().rows ? static_cast<const Activation*>(p.q) + at : nullptr;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int column = step * 16 + lane % 4 * (kCodes ? 4 : 2);
      const float2 first = QPair(row, column), second = QPair(row, column + (kCodes ? 2 : 8));
      q[step][0] = kCodes ? Pack<T>(first.x, second.x) : Pack<T>(first.x, first.y);
      q[step][2] = kCodes ? Pack<T>(first.y, second.y) : Pack<T>(second.x, second.y);
      // Kept where the matrix instructions take them.
      asm volatile("mov.b32 %0, 0;" : "=r"(q[step][1]));
      asm volatile("mov.b32 %0, 0;" : "=r"(q[step][3]));
    }
  }

  __device__ void Reset() {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[step][i] = 0.0f;
    }
    state = {-INFINITY, 0.0f};
  }

  // Where the lane reads step `step` of the box at `box`, of whose rows the pieces of 16 bytes are
  // swizzled.
  __device__ uint32_t ChunkAt(const char* box, int step) const {
    const int chunk = kCodes ? step : 2 * step;
    return ((SharedAddress(box) + lane_offset) ^ chunk % 8 * 16) + chunk / 8 * Ring::kHalfBytes;
  }

  // Products of the rows with boxes of K: sums[2 i] is of positions 0 to 7 of box i, then 8 to 15.
  __device__ void MultiplyK(float (&sums)[2 * kBoxes][4]) const {
#pragma unroll
    for (int step = 0; step < kSteps; step += kCodes ? 2 : 1) {
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        uint32_t b[4];
        LoadMatrices(ChunkAt(ring.box(box), step), b);
        float(&low)[4] = sums[2 * box], (&high)[4] = sums[2 * box + 1];
        if constexpr (!kCodes) {
          MultiplyAdd<T>(low, q[step], b[0], b[1]);
          MultiplyAdd<T>(high, q[step], b[2], b[3]);
        } else {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const uint32_t first = b[2 * i], second = b[2 * i + 1];
            MultiplyAdd<T>(low, q[step + i], PlaceEven<kForm>(first), PlaceOdd<kForm>(first));
            MultiplyAdd<T>(high, q[step + i], PlaceEven<kForm>(second), PlaceOdd<kForm>(second));
          }
        }
      }
    }
  }

  // Adds the products of a box of V with its weights. Of codes a lane has two neighbouring columns
  // of sixteen, of other numbers two that are eight apart.
  __device__ void MultiplyV(const char* box, const uint32_t (&weights)[2]) {
    if constexpr (!kCodes) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t a[4];
        LoadMatricesTransposed(ChunkAt(box, step), a);
        MultiplyAdd<T>(o[step], a, weights[0], weights[1]);
      }
    } else {
#pragma unroll
      for (int step = 0; step < kSteps; step += 2) {
        uint32_t b[4];
        LoadMatricesTransposed(ChunkAt(box, step), b);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t low = b[2 * i], high = b[2 * i + 1];
          const uint32_t a[4] = {PlaceEven<kForm>(low), PlaceOdd<kForm>(low),
                                 PlaceEven<kForm>(high), PlaceOdd<kForm>(high)};
          MultiplyAdd<T>(o[step + i], a, weights[0], weights[1]);
        }
      }
    }
  }

  // Scales of the lane's two positions among eight of a box that is read.
  __device__ float2 Scales(int box, int eight) const {
    return *reinterpret_cast<const float2*>(&ring.scales(box)[8 * eight + lane % 4 * 2]);
  }

  __device__ __forceinline__ void Attend(int block) {
    const bool border = block * kBlock < all.first || (block + 1) * kBlock > all.end;
    float s[2 * kParts][2];  // of positions 8 j + lane % 4 * 2 + i
#pragma unroll
    for (int part = 0; part < kParts; part += kBoxes) {
      float sums[2 * kBoxes][4] = {};
      ring.Await();
      MultiplyK(sums);
#pragma unroll
      for (int j = 0; j < 2 * kBoxes; ++j) {
        float2 scales = {1.0f, 1.0f};
        if constexpr (kCodes) scales = Scales(j / 2, j % 2);
        s[2 * part + j][0] = kCodes ? sums[j][0] * (scales.x * kRest) : sums[j][0];
        s[2 * part + j][1] = kCodes ? sums[j][1] * (scales.y * kRest) : sums[j][1];
      }
      ring.LeaveSlot(items);
    }
    if (!ScoresAreProducts(p)) MakeScores(p, s);
    if (border) Hide(block, s);
    const float base = Rescale(s);
#pragma unroll
    for (int part = 0; part < kParts; part += kBoxes) {
      ring.Await();
      if (!kCodes && border) ClearHidden(ring.box(0), block * kBlock + part * kBox, all);
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        uint32_t weights[2];
        Weigh(base, box, s[2 * (part + box)], s[2 * (part + box) + 1], weights);
        MultiplyV(ring.box(box), weights);
      }
      ring.LeaveSlot(items);
    }
  }

  // Takes out the positions of a block that the rows do not see.
  __device__ void Hide(int block, float (&s)[2 * kParts][2]) const {
#pragma unroll
    for (int j = 0; j < 2 * kParts; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int position = block * kBlock + 8 * j + lane % 4 * 2 + i;
        if (position < all.first || position >= all.end) s[j][i] = -INFINITY;
      }
    }
  }
  // Makes V of positions that the rows do not see 0: it may be anything, and 0 * NaN is no 0.
  static __device__ __noinline__ void ClearHidden(char* slot, int first, Visible seen) {
    for (int i = threadIdx.x % 32; i < kStreamSlotBytes / 16; i += 32) {
      const int position = first + i / (kBoxBytes / 16) * kBox + i / 8 % kBox;
      if (position < seen.first || position >= seen.end)
        reinterpret_cast<uint4*>(slot)[i] = {0, 0, 0, 0};
    }
    PublishToMatrices();
    __syncwarp();
  }

  // A row's number, which its lanes have, for the rows of the lane's sums.
  __device__ float2 OfSums(float of_row) const {
    return {__shfl_sync(0xffffffffu, of_row, lane % 4 * 8),
            __shfl_sync(0xffffffffu, of_row, lane % 4 * 8 + 4)};
  }

  // What a block's largest score makes of the row's base; what was summed so far is scaled to it.
  __device__ float Rescale(const float (&s)[2 * kParts][2]) {
    float largest = -INFINITY, base;
#pragma unroll
    for (int j = 0; j < 2 * kParts; ++j) largest = fmaxf(largest, fmaxf(s[j][0], s[j][1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2)) * score_factor;
    const float growth = Grow(&state, largest, &base);
    if (!__any_sync(0xffffffffu, growth != 1.0f)) return base;
    const float2 of_sums = OfSums(growth);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      o[step][0] = __fmul_rn(o[step][0], of_sums.x);
      o[step][1] = __fmul_rn(o[step][1], of_sums.y);
      o[step][2] = __fmul_rn(o[step][2], of_sums.x);
      o[step][3] = __fmul_rn(o[step][3], of_sums.y);
    }
    return base;
  }

  // Weights of a box from its scores, as the right factors of its products with V.
  __device__ void Weigh(float base, int box, float (&low)[2], float (&high)[2],
                        uint32_t (&weights)[2]) {
    float sum = 0.0f;
    const auto weigh = [&](float(&s)[2], int eight) {
      float2 scales = {1.0f, 1.0f};
      if constexpr (kCodes) scales = Scales(box, eight);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bool hidden = s[i] == -INFINITY;
        s[i] = PowerOfTwo(__fmaf_rn(s[i], score_factor, -base));
        sum = __fadd_rn(sum, s[i]);
        if constexpr (kCodes)
          s[i] = hidden ? 0.0f : s[i] * ((i == 0 ? scales.x : scales.y) * kFactor);
      }
    };
    weigh(low, 0);
    weigh(high, 1);
    state.sum = __fadd_rn(state.sum, sum);
    weights[0] = Pack<T>(low[0], low[1]);
    weights[1] = Pack<T>(high[0], high[1]);
  }

  __device__ void EndSplit(int split) {
    state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 1);
    state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 2);
    if constexpr (kRest != 1.0f) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) o[step][i] *= kRest;
      }
    }
    const int first = all.first_split(), last = all.last_split();
    if (first == last) {
      Finish(state);
    } else if (tile().split()) {
      StorePartial(split);
    } else {
      Keep(split == first);
      if (split == last) Finish(shared.outer[warp][lane]);
    }
    Reset();
  }

  // The row of the call and the head of row r of the tile.
  __device__ int TokenOf(int r) const { return (tile().row + r) / p.group; }
  __device__ int HeadOf(int r) const {
    return tile().kv_head * p.group + (tile().row + r) % p.group;
  }
  // Hands column, sum and row of the lane's sums to `visit`: which of its two rows, then which of
  // `o`.
  template <class Visit>
  __device__ void ForSums(int i, const Visit& visit) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = step * 16 + (kCodes ? lane / 4 * 2 + j : lane / 4 + 8 * j);
        if (column < p.head_dim) visit(column, o[step][2 * j + i]);
      }
    }
  }

  __device__ void Finish(const RowState& of_row) {
    float factor = 0.0f;
    if (lane / 4 < tile().rows) factor = OverWeights(p, HeadOf(lane / 4), of_row);
    const float2 factors = OfSums(factor);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane % 4 * 2 + i;
      if (r >= tile().rows) continue;
      Activation* const to = static_cast<Activation*>(p.out) +
                             (tile().at.first_token + TokenOf(r)) * p.out_stride +
                             int64_t{HeadOf(r)} * p.head_dim;
      ForSums(i, [&](int column, float sum) {
        to[column] = FromFloat<Activation>(sum * (i == 0 ? factors.x : factors.y));
      });
    }
  }

  __device__ int64_t PartialAt(int split, int r) const {
    return PartialRow(p, tile().slot, TokenOf(r), tile().splits, split - tile().first_split,
                      HeadOf(r));
  }
  __device__ void StorePartial(int split) {
    if (lane % 4 == 0 && lane / 4 < tile().rows)
      reinterpret_cast<float2*>(p.partial_state)[PartialAt(split, lane / 4)] = {state.largest,
                                                                                state.sum};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane % 4 * 2 + i;
      if (r >= tile().rows) continue;
      float* const to = p.partial + PartialAt(split, r) * p.head_dim;
      ForSums(i, [&](int column, float sum) { to[column] = sum; });
    }
  }

  // Joins a split with those before it, which lie behind the partial results: a place for each
  // warp. What comes of it is in `o`, too.
  __device__ void Keep(bool first) {
    float2 join = {0.0f, 1.0f};
    RowState outer = state;
    if (!first) {
      outer = shared.outer[warp][lane];
      join = Join(&outer, state);
    }
    shared.outer[warp][lane] = outer;
    const float2 before = OfSums(join.x), next_one = OfSums(join.y);
    const int64_t place = int64_t{blockIdx.x} * kStreamWarps + warp;
    float* const kept =
        p.partial + (int64_t{p.slots_max} * p.q_heads + place * kStreamRows) * p.head_dim;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float* const of_row = kept + (lane % 4 * 2 + i) * p.head_dim;
      const float2 factors = i == 0 ? float2{before.x, next_one.x} : float2{before.y, next_one.y};
      ForSums(i, [&](int column, float& sum) {
        if (!first) sum = Joined(of_row[column], sum, factors);
        of_row[column] = sum;
      });
    }
  }
};

}  // namespace sluice::cuda

// Defines kernel `name` for one size of heads.
#define SLUICE_STREAM_ATTENTION(name, T, Activation, form, dim)                      \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::kStreamThreads,         \
                                               sluice::cuda::kStreamBlocksPerUnit)   \
      name(const __grid_constant__ sluice::cuda::AttentionParams params,             \
           const __grid_constant__ sluice::cuda::KvMaps maps) {                      \
    using namespace sluice::cuda;                                                    \
    using Stream = StreamAttention<T, Activation, KvForm::form, dim>;                \
    extern __shared__ __align__(1024) char memory[];                                 \
    Stream(params, maps, *reinterpret_cast<typename Stream::Shared*>(memory)).Run(); \
  }

// Kernels `name`_64 and so on, one for each size of heads.
#define SLUICE_STREAM_ATTENTION_SIZES(name, T, Activation, form) \
  SLUICE_STREAM_ATTENTION(name##_64, T, Activation, form, 64)    \
  SLUICE_STREAM_ATTENTION(name##_96, T, Activation, form, 96)    \
  SLUICE_STREAM_ATTENTION(name##_128, T, Activation, form, 128)
