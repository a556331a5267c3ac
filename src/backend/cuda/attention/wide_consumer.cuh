// The warpgroups that multiply in the wide attention kernel (wide_attention.cuh): 64 rows each.
#pragma once

#include <cstddef>
#include <type_traits>

#include "backend/cuda/attention/wide_producer.cuh"
#include "backend/cuda/simt/warpgroup_16bit.cuh"

namespace sluice::cuda {

// A warpgroup with 64 rows. kScored: products are not yet scores (MakeScores).
template <class T, int kDim, bool kScored>
struct WideConsumer {
  using Shared = WideShared<kDim>;
  static constexpr int kSteps = kDim / 16, kParts = kWideBlock / 16;
  static constexpr int kSums = kDim / 2;  // of the output, a thread's

  const AttentionParams& p;
  Shared& shared;
  const int group, warp, lane;  // the warpgroup, its warp
  const float score_factor;
  uint64_t q_rows = 0;
  uint32_t parity = 0;      // of the ring's round, one for each split
  Visible visible[2] = {};  // to the thread's rows
  Visible common = {};      // to all of the warpgroup's
  RowState inner[2] = {}, outer[2] = {};
  float o[kSums], kept[kSums];  // of the split, of those before it
  float s[kWideBlock / 2];
  // Two blocks': those of one are made while the products of the other with V run.
  uint32_t weights[2][kParts][4];

  __device__ WideConsumer(const AttentionParams& params, Shared& memory, int warpgroup)
      : p(params),
        shared(memory),
        group(warpgroup),
        warp(threadIdx.x / 32 % 4),
        lane(threadIdx.x % 32),
        score_factor(kScored ? 1.0f : params.factor) {}

  __device__ __forceinline__ void Run() {
    for (QPlace place;; place.Advance()) {
      WaitBarrier(SharedAddress(&shared.q_full[place.slot]), place.parity);
      const Tile& tile = shared.tiles[place.slot];
      if (tile.rows == 0) return;
      PublishToMatrices();
      Attend(tile, place.slot);
      Finish(tile);
      __syncwarp();
      if (lane == 0) Arrive(SharedAddress(&shared.q_free[place.slot]));
    }
  }

  __device__ __forceinline__ void Attend(const Tile& tile, int slot) {
    const WideRounds rounds(tile, VisibleToRows(p, tile.at, tile.row, tile.rows));
    int begin = rounds.end, end = rounds.end;
    const int first = group * 64, rows = min(tile.rows - first, 64);
    common = {};
    if (rows > 0) {
      const Visible top = VisibleAt(p, tile.at, tile.at.Position((tile.row + first) / p.group));
      const Visible bottom =
          VisibleAt(p, tile.at, tile.at.Position((tile.row + first + rows - 1) / p.group));
      begin = max(rounds.walk.begin, top.first / kWideBlock);
      end = min(rounds.walk.end, (bottom.end + kWideBlock - 1) / kWideBlock);
      common = {bottom.first, top.end};
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = first + warp * 16 + lane / 4 + 8 * i;
      visible[i] = {0, 0};
      if (r < tile.rows)
        visible[i] = VisibleAt(p, tile.at, tile.at.Position((tile.row + r) / p.group));
      inner[i] = outer[i] = {-INFINITY, 0.0f};
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) kept[i] = 0.0f;
    Skip(rounds.begin, min(begin, rounds.end));
    if (begin < end) Walk(slot, begin, end);
    Skip(max(begin, end), rounds.end);
  }

  // Blocks that only the other warpgroup needs, or none.
  __device__ __forceinline__ void Skip(int begin, int end) {
    for (int block = begin; block < end; ++block) {
      const int stage = block % kWideStages;
      AwaitK(stage, parity);
      FreeK(stage);
      AwaitV(stage, parity);
      FreeV(stage);
      if (stage == kWideStages - 1) parity ^= 1;
    }
  }

  __device__ __forceinline__ void Walk(int slot, int begin, int end) {
    // The compiler then knows that all lanes have the same.
    q_rows =
        SwizzledOperand(__shfl_sync(0xffffffffu, SharedAddress(shared.q[slot][0][group * 64]), 0));
    const int stage = begin % kWideStages;
    AwaitK(stage, parity);
    MultiplyK(stage);
    WarpgroupWait<0>();
    PinSums(s);
    FreeK(stage);
    float growth[2];
    Weigh(begin, IsBorder(begin), growth, weights[0]);
    bool add = false;
    for (int block = begin; block < end;) {
      if (block % kWideStages == 0 && block + kWideStages < end && !IsBorder(block, kWideStages)) {
        WholeSplit(block);
        block += kWideStages;
        continue;
      }
      Step(block, block % kWideStages, (block + 1) % kWideStages, add, block + 1 < end);
      ++block;
      add = block % kWideStages != 0;
    }
  }

  // A split that all rows see, and behind which they see more: while weights of a block are made,
  // the products of the block before with V run.
  __device__ __forceinline__ void WholeSplit(int block) {
    static_assert(kWideStages == 4);
    AwaitK(1, parity);
    AwaitV(0, parity);
    WholeStep<0>(block);
    WholeStep<1>(block + 1);
    WholeStep<2>(block + 2);
    WholeStep<3>(block + 3);
  }
  template <int kStage>
  __device__ __forceinline__ void WholeStep(int block) {
    constexpr int kNext = (kStage + 1) % kWideStages;
    MultiplyK(kNext);
    MultiplyV<(kStage > 0)>(kStage, weights[kStage % 2]);
    // What the next step needs: it has mostly come by now.
    if (kNext != 0) {
      AwaitK((kNext + 1) % kWideStages, kNext == kWideStages - 1 ? parity ^ 1 : parity);
      AwaitV(kNext, parity);
    }
    WarpgroupWait<1>();
    PinSums(s);
    FreeK(kNext);
    float2 join[2];
    float growth[2];
    if (kNext == 0) JoinState(block, join);
    const bool grew =
        Weigh(block + 1, kNext == 0 && IsBorder(block + 1), growth, weights[kNext % 2]);
    FinishWeights();
    WarpgroupWait<0>();
    PinSums(o);
    FreeV(kStage);
    if (kNext == 0) {
      parity ^= 1;
      JoinSums(join);
    } else if (grew) {
      Rescale(growth);
    }
  }

  // Any block, one thing after the other.
  __device__ __forceinline__ void Step(int block, int stage, int next, bool add, bool has_next) {
    const bool ends = next == 0 || !has_next, border = IsBorder(block);
    AwaitV(stage, parity);
    if (!add) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) o[i] = 0.0f;
    }
    if (border && !IsFinite(block, stage)) {
      MultiplySeenV(block, stage);
    } else {
      MultiplyV<true>(stage, weights[0]);
      WarpgroupWait<0>();
      PinSums(o);
    }
    FreeV(stage);
    if (next == 0) parity ^= 1;
    if (ends) {
      float2 join[2];
      JoinState(block, join);
      JoinSums(join);
    }
    if (!has_next) return;
    AwaitK(next, parity);
    MultiplyK(next);
    WarpgroupWait<0>();
    PinSums(s);
    FreeK(next);
    float growth[2];
    if (Weigh(block + 1, IsBorder(block + 1), growth, weights[0]) && !ends) Rescale(growth);
  }

  // Barriers of the rings. Addresses are constants, which spares registers and time.
  static constexpr uint32_t At(size_t offset, int stage) {
    return kWideBase + static_cast<uint32_t>(offset) + static_cast<uint32_t>(stage) * 8;
  }
  __device__ static void AwaitK(int stage, uint32_t parity) {
    WaitBarrier(At(offsetof(Shared, k_full), stage), parity);
  }
  __device__ static void AwaitV(int stage, uint32_t parity) {
    WaitBarrier(At(offsetof(Shared, v_full), stage), parity);
  }
  __device__ void FreeK(int stage) const {
    if (lane == 0) Arrive(At(offsetof(Shared, k_free), stage));
  }
  __device__ void FreeV(int stage) const {
    if (lane == 0) Arrive(At(offsetof(Shared, v_free), stage));
  }

  __device__ __forceinline__ void MultiplyK(int stage) {
    constexpr int kHalfOfA = sizeof(shared.q[0][0]) / 16, kHalfOfB = sizeof(shared.k[0][0]) / 16;
    const uint64_t b = SwizzledOperand(kWideBase + static_cast<uint32_t>(offsetof(Shared, k)) +
                                       stage * static_cast<uint32_t>(sizeof(shared.k[0])));
    WarpgroupFence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t rows = Behind(q_rows, step / 4 * kHalfOfA + step % 4 * 2);
      const uint64_t positions = Behind(b, step / 4 * kHalfOfB + step % 4 * 2);
      if (step == 0) {
        BeginRows<T>(s, rows, positions);
      } else {
        AddRows<T>(s, rows, positions);
      }
    }
    WarpgroupCommit();
  }

  template <bool kAdd>
  __device__ __forceinline__ void MultiplyV(int stage, const uint32_t (&w)[kParts][4]) {
    const uint64_t b = ColumnsOperand<sizeof(shared.v[0][0])>(
        kWideBase + static_cast<uint32_t>(offsetof(Shared, v)) +
        stage * static_cast<uint32_t>(sizeof(shared.v[0])));
    WarpgroupFence();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part == 0 && !kAdd) {
        BeginColumns<T>(o, w[part], b);
      } else {
        AddColumns<T>(o, w[part], Behind(b, part * 128));
      }
    }
    WarpgroupCommit();
  }

  // Whether rows differ in what they see of `count` blocks.
  __device__ bool IsBorder(int block, int count = 1) const {
    return block * kWideBlock < common.first || (block + count) * kWideBlock > common.end;
  }

  // Makes weights of products, and the rows' new states. False: no row's base has changed, and
  // growth is nothing.
  __device__ __forceinline__ bool Weigh(int block, bool border, float (&growth)[2],
                                        uint32_t (&to)[kParts][4]) {
    if constexpr (kScored) MakeScores(p, reinterpret_cast<float(&)[1][kWideBlock / 2]>(s));
    if (border) Hide(block * kWideBlock + lane % 4 * 2);
    const bool grows = MayGrow();
    if (grows) {
      float largest[2] = {Largest(0), Largest(1)}, base[2];
#pragma unroll
      for (int other = 1; other < 4; other *= 2) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], other));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) growth[i] = Grow(&inner[i], largest[i] * score_factor, &base[i]);
    }
    float base[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) base[i] = inner[i].largest == -INFINITY ? 0.0f : inner[i].largest;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& x = s[8 * part + 4 * (j / 2) + 2 * i + j % 2];
          x = PowerOfTwo(__fmaf_rn(x, score_factor, -base[i]));
          sum = j == 0 ? x : __fadd_rn(sum, x);
        }
        inner[i].sum = __fadd_rn(inner[i].sum, sum);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[part][i] = Pack<T>(s[8 * part + 2 * i], s[8 * part + 2 * i + 1]);
    }
    return grows;
  }

  // False: no row of the warp has a score that makes its base grow. True where one is as near to
  // that as roundings, and where scores are not numbers. Hardly any block has such a row, and to
  // find the largest of all scores would take longer.
  __device__ __forceinline__ bool MayGrow() const {
    float most[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float score = (inner[i].largest + kGrowthMax) * (1.0f / score_factor);
      most[i] = __fmaf_rn(fabsf(score), -0x1p-20f, score);
    }
    bool may[4] = {};
#pragma unroll
    for (int i = 0; i < kWideBlock / 2; ++i) may[i % 4] |= !(s[i] <= most[i / 2 % 2]);
    return __any_sync(0xffffffffu, may[0] || may[1] || may[2] || may[3]);
  }

  // Of the thread's products of its row i.
  __device__ __forceinline__ float Largest(int i) const {
    float most = -INFINITY;
#pragma unroll
    for (int j = 0; j < kWideBlock / 8; ++j)
      most = fmaxf(most, fmaxf(s[4 * j + 2 * i], s[4 * j + 2 * i + 1]));
    return most;
  }

  // Weights are never negative, but the compiler does not know: it would else wait for the products
  // with V before it makes them.
  __device__ void FinishWeights() const {
    asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p nanosleep.u32 20;\n}" ::"f"(
                     fminf(inner[0].sum, inner[1].sum))
                 : "memory");
  }

  // Takes out the positions that a row does not see; `first`: that of s[0].
  __device__ __forceinline__ void Hide(int first) {
#pragma unroll
    for (int i = 0; i < kWideBlock / 2; ++i) {
      const int position = first + i / 4 * 8 + i % 2;
      const Visible& sees = visible[i / 2 % 2];
      if (position < sees.first || position >= sees.end) s[i] = -INFINITY;
    }
  }

  __device__ __forceinline__ void Rescale(const float (&growth)[2]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) o[i] = __fmul_rn(o[i], growth[i / 2 % 2]);
  }

  // The states of the split that ends join those before it, and begin anew. Returns the factors of
  // what rows saw before and of what they see of the split.
  __device__ __forceinline__ void JoinState(int block, float2 (&join)[2]) {
    const int split = block / kWideStages;
#pragma unroll
    for (int other = 1; other < 4; other *= 2) {
#pragma unroll
      for (int i = 0; i < 2; ++i) inner[i].sum += __shfl_xor_sync(0xffffffffu, inner[i].sum, other);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int from = visible[i].first_split(), to = visible[i].last_split();
      join[i] = {1.0f, 0.0f};
      if (split == from) {
        outer[i] = inner[i];
        join[i] = {0.0f, 1.0f};
      } else if (split > from && split <= to) {
        join[i] = Join(&outer[i], inner[i]);
      }
      inner[i] = {-INFINITY, 0.0f};
    }
  }

  __device__ __forceinline__ void JoinSums(const float2 (&join)[2]) {
    if (__any_sync(0xffffffffu, join[0].x != 1.0f || join[1].x != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) kept[i] = Joined(kept[i], o[i], join[i / 2 % 2]);
    } else {
#pragma unroll
      for (int i = 0; i < kSums; ++i) kept[i] = __fmaf_rn(o[i], join[i / 2 % 2].y, kept[i]);
    }
  }

  // Whether the V of a block that not all rows see is finite. The warpgroup finds out together.
  __device__ __forceinline__ bool IsFinite(int block, int stage) const {
    using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    const Pair zero = {T(0.0f), T(0.0f)};
    Pair zeros = zero;
#pragma unroll 1
    for (int i = warp * 32 + lane; i < kWideBlock * Shared::kHalves * 8; i += 128) {
      const int row = i / 8 % kWideBlock, position = block * kWideBlock + row;
      if (position >= common.first && position < common.end) continue;
      const uint4 eight =
          *reinterpret_cast<const uint4*>(&shared.v[stage][i / (8 * kWideBlock)][row][i % 8 * 16]);
      const Pair pairs[4] = {AsPair<Pair>(eight.x), AsPair<Pair>(eight.y), AsPair<Pair>(eight.z),
                             AsPair<Pair>(eight.w)};
#pragma unroll
      for (int j = 0; j < 4; ++j) zeros = __hfma2(pairs[j], zero, zeros);
    }
    const int finite = (*reinterpret_cast<const uint32_t*>(&zeros) & 0x7fff7fffu) == 0 ? 1 : 0;
    int all;
    asm volatile(
        "{\n.reg .pred mine, all;\n"
        "setp.ne.s32 mine, %1, 0;\n"
        "bar.red.and.pred all, %2, 128, mine;\n"
        "selp.s32 %0, 1, 0, all;\n}"
        : "=r"(all)
        : "r"(finite), "r"(1 + group)
        : "memory");
    return all != 0;
  }
  template <class Pair>
  __device__ static Pair AsPair(uint32_t bits) {
    return *reinterpret_cast<const Pair*>(&bits);
  }

  // Products of weights with V in which, for each row, what it does not see is 0: the bits that it
  // has beside finite V.
  __device__ __forceinline__ void MultiplySeenV(int block, int stage) {
#pragma unroll 1
    for (int r = 0; r < 16; ++r) {
      int from = 0, to = 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int first = __shfl_sync(0xffffffffu, visible[i].first, r % 8 * 4);
        const int end = __shfl_sync(0xffffffffu, visible[i].end, r % 8 * 4);
        if (i == r / 8) from = first - block * kWideBlock, to = end - block * kWideBlock;
      }
      const auto keep = [&](int i) { return i >= from && i < to ? 0xffffu : 0u; };
#pragma unroll
      for (int pair = 0; pair < kDim / 16; ++pair) {
        float sums[2][4];
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] = o[8 * pair + i];
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const int row = part * 16 + lane % 16, chunk = pair * 2 + lane / 16;
          uint32_t b[4];
          LoadMatricesTransposed(
              SharedAddress(&shared.v[stage][chunk / 8][row][(chunk % 8 ^ row % 8) * 16]), b);
          const int at = part * 16 + lane % 4 * 2;
          const uint32_t low = keep(at) | keep(at + 1) << 16;
          const uint32_t high = keep(at + 8) | keep(at + 9) << 16;
          MultiplyAdd<T>(sums[0], weights[0][part], b[0] & low, b[1] & high);
          MultiplyAdd<T>(sums[1], weights[0][part], b[2] & low, b[3] & high);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (lane / 4 == r % 8 && i / 2 % 2 == r / 8) o[8 * pair + i] = sums[i / 4][i % 4];
        }
      }
    }
  }

  __device__ __forceinline__ void Finish(const Tile& tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = group * 64 + warp * 16 + lane / 4 + 8 * i;
      if (r >= tile.rows) continue;
      const int token = (tile.row + r) / p.group;
      const int head = tile.kv_head * p.group + (tile.row + r) % p.group;
      const float factor = OverWeights(p, head, outer[i]);
      T* to = static_cast<T*>(p.out) + (tile.at.first_token + token) * p.out_stride +
              int64_t{head} * p.head_dim + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        if (8 * j >= p.head_dim) continue;
        *reinterpret_cast<uint32_t*>(to + 8 * j) =
            Pack<T>(kept[4 * j + 2 * i] * factor, kept[4 * j + 2 * i + 1] * factor);
      }
    }
  }
};

}  // namespace sluice::cuda
