// Attention in plain F32 arithmetic for every type of rows and KV. A thread block has 16 rows of
// one KV head, eight threads to a row; one code for prefill and decode, so that a row's bits are
// the same in both. V is a tensor of its own, or the end of each row of K (latent attention).
#pragma once

#include "backend/cuda/attention/listed.cuh"
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "base/dtype.h"

namespace sluice::cuda {

// Four numbers of K or V from `data` + `at` on, without their scale. `count` of them are there.
__device__ inline float4 LoadFour(const AttentionParams& p, const void* data, int64_t at,
                                  int count) {
  float four[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  const auto take = [&]<class T>(const T* from, auto widen) {
    if (p.vector_kv != 0) {
      struct alignas(4 * sizeof(T)) Four {
        T values[4];
      };
      const Four packed = *reinterpret_cast<const Four*>(from + at);
#pragma unroll
      for (int i = 0; i < 4; ++i) four[i] = widen(packed.values[i]);
    } else {
      for (int i = 0; i < count; ++i) four[i] = widen(from[at + i]);
    }
  };
  const auto plain = [](auto x) { return ToFloat(x); };
  switch (static_cast<DType>(p.kv)) {
    case DType::kF32:
      take(static_cast<const float*>(data), plain);
      break;
    case DType::kF16:
      take(static_cast<const __half*>(data), plain);
      break;
    case DType::kBF16:
      take(static_cast<const __nv_bfloat16*>(data), plain);
      break;
    case DType::kF8E4M3:
      take(static_cast<const uint8_t*>(data), [](uint8_t x) { return F8ToFloat(x); });
      break;
    default:
      take(static_cast<const int8_t*>(data), [](int8_t x) { return static_cast<float>(x); });
  }
  return {four[0], four[1], four[2], four[3]};
}

__device__ inline float LoadActivation(const AttentionParams& p, const void* data, int64_t at) {
  const DType type = static_cast<DType>(p.activation);
  if (type == DType::kF32) return static_cast<const float*>(data)[at];
  if (type == DType::kF16) return ToFloat(static_cast<const __half*>(data)[at]);
  return ToFloat(static_cast<const __nv_bfloat16*>(data)[at]);
}

__device__ inline void StoreActivation(const AttentionParams& p, int64_t at, float value) {
  const DType type = static_cast<DType>(p.activation);
  if (type == DType::kF32) {
    static_cast<float*>(p.out)[at] = value;
  } else if (type == DType::kF16) {
    static_cast<__half*>(p.out)[at] = FromFloat<__half>(value);
  } else {
    static_cast<__nv_bfloat16*>(p.out)[at] = FromFloat<__nv_bfloat16>(value);
  }
}

// Where a row's values stand in its V, and how many there are. Partial results count as `parts`
// heads each: the kernel that combines them takes so many columns at a time.
struct PlainValues {
  int from, width, parts;
  ListedParams listed = {};
};

// kDim: numbers of K, at most, kValues: of values. With kInK a value is a part of its K.
template <int kDim, int kValues, bool kInK>
struct PlainAttention {
  static constexpr int kRows = kPlainRows, kThreads = kPlainThreads;
  static constexpr int kBlock = PlainBlock(kDim);
  static constexpr int kWidth = kDim + 4;  // padded: rows begin in different banks
  static constexpr int kColumns = kValues / 32;

  struct Shared {
    float k[kBlock][kWidth], v[kInK ? 1 : kBlock][kWidth];
    float q[kRows][kWidth];
    float weight[kRows][kBlock + 4];
    KvRow rows[2][kBlock];
    float scales[2][kBlock];
  };
  static_assert(sizeof(Shared) <= (kInK ? LatentSharedBytes(kDim) : PlainSharedBytes(kDim)));

  const AttentionParams& p;
  const PlainValues values;
  Shared& shared;
  const Tile tile;
  Visible all;
  int kv_head, r, c;  // r: the thread's row, c: which of its eight threads
  bool valid;
  int token, head;
  Visible visible;
  int position;         // of the row
  float growth, slope;  // what its products are multiplied by, and what falls a position away
  RowState inner, outer;
  float4 o[kColumns], kept[kColumns];

  __device__ PlainAttention(const AttentionParams& params, const PlainValues& of_rows,
                            Shared& memory, const Tile& item)
      : p(params),
        values(of_rows),
        shared(memory),
        tile(item),
        kv_head(item.kv_head),
        r(threadIdx.x / 8),
        c(threadIdx.x % 8) {}

  __device__ void Run() {
    all = VisibleToRows(p, tile.at, tile.row, tile.rows);
    const BlockWalk<kBlock> walk(tile, all);
    if (walk.begin >= walk.end) return;
    StoreRow(0, LookUp(walk.begin));
    SetRow();
    ResetInner();
    __syncthreads();
    for (int block = walk.begin; block < walk.end; ++block) {
      const int slot = (block - walk.begin) % 2;
      const KvRow ahead = LookUp(block + 1);
      Load(slot);
      StoreRow(1 - slot, ahead);
      __syncthreads();
      Attend(block);
      if (walk.EndsSplit(block)) EndSplit(block * kBlock / kSplitTokens);
      __syncthreads();
    }
  }

  __device__ void SetRow() {
    valid = r < tile.rows;
    token = head = position = 0;
    growth = 1.0f;
    slope = 0.0f;
    visible = {0, 0};
    if (valid) {
      const int of_sequence = (tile.row + r) / p.group;
      token = tile.at.first_token + of_sequence;
      head = kv_head * p.group + (tile.row + r) % p.group;
      position = tile.at.Position(of_sequence);
      visible = VisibleAt(p, tile.at, position);
      if constexpr (!kInK) SetPositionTerms();
    }
    for (int d = c; d < kDim; d += 8) {
      const bool there = valid && d < p.head_dim;
      shared.q[r][d] =
          there ? LoadActivation(p, p.q, token * p.q_stride + int64_t{head} * p.head_dim + d)
                : 0.0f;
    }
  }

  __device__ void SetPositionTerms() {
    constexpr float kLog2E = 1.4426950408889634f;
    if (p.slopes != nullptr) slope = p.slopes[head] * kLog2E;
    if (p.growth_tokens == 0) return;
    const int steps = (position + 1) / p.growth_tokens;
    growth = 1.0f + p.growth_scale * logf(1.0f + static_cast<float>(steps));
  }

  __device__ KvRow LookUp(int block) const {
    const int i = threadIdx.x;
    if (i >= kBlock) return {-1, 0};
    if (kInK && values.listed.positions != nullptr)
      return FindListed(values.listed, tile.at.index, all.end, block * kBlock + i);
    return FindRow(p, tile.at, all, block * kBlock + i);
  }
  __device__ void StoreRow(int slot, const KvRow& at) {
    if (threadIdx.x < kBlock) shared.rows[slot][threadIdx.x] = Checked(p, at);
  }

  __device__ void Load(int slot) {
#pragma unroll 4
    for (int i = threadIdx.x; i < kBlock * kDim / 4; i += kThreads) {
      const int at = i / (kDim / 4), d = i % (kDim / 4) * 4;
      const KvRow row = shared.rows[slot][at];
      float4 k = {0.0f, 0.0f, 0.0f, 0.0f}, v = k;
      if (row.block >= 0 && d < p.head_dim) {
        const int64_t inside = (int64_t{kv_head} * p.block_tokens + row.offset) * p.head_dim + d;
        const int count = min(4, p.head_dim - d);
        k = LoadFour(p, p.k, row.block * p.k_stride + inside, count);
        if constexpr (!kInK) v = LoadFour(p, p.v, row.block * p.v_stride + inside, count);
      }
      *reinterpret_cast<float4*>(&shared.k[at][d]) = k;
      if constexpr (!kInK) *reinterpret_cast<float4*>(&shared.v[at][d]) = v;
    }
    const int i = threadIdx.x;
    if (i >= kBlock) return;
    const KvRow row = shared.rows[slot][i];
    const int64_t inside = int64_t{kv_head} * p.block_tokens + row.offset;
    const bool scaled = p.k_scale != nullptr && row.block >= 0;
    shared.scales[0][i] = scaled ? p.k_scale[row.block * p.k_scale_stride + inside] : 1.0f;
    if constexpr (!kInK)
      shared.scales[1][i] = scaled ? p.v_scale[row.block * p.v_scale_stride + inside] : 1.0f;
  }

  __device__ void ResetInner() {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) o[j] = {0.0f, 0.0f, 0.0f, 0.0f};
    inner = {-INFINITY, 0.0f};
  }

  __device__ void Attend(int block) {
    if (!valid || block * kBlock >= visible.end || (block + 1) * kBlock <= visible.first) return;
    const unsigned lanes = 0xffu << (threadIdx.x % 32 / 8 * 8);  // the row's threads
    float products[1][kBlock / 8];
    auto& s = products[0];
#pragma unroll
    for (int j = 0; j < kBlock / 8; ++j) s[j] = 0.0f;
    for (int d = 0; d < kDim; d += 4) {
      const float4 q = *reinterpret_cast<const float4*>(&shared.q[r][d]);
#pragma unroll
      for (int j = 0; j < kBlock / 8; ++j) {
        const float4 k = *reinterpret_cast<const float4*>(&shared.k[c + 8 * j][d]);
        s[j] = __fmaf_rn(q.x, k.x, s[j]);
        s[j] = __fmaf_rn(q.y, k.y, s[j]);
        s[j] = __fmaf_rn(q.z, k.z, s[j]);
        s[j] = __fmaf_rn(q.w, k.w, s[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kBlock / 8; ++j) s[j] *= shared.scales[0][c + 8 * j] * growth;
    MakeScores(p, products);
    float largest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kBlock / 8; ++j) {
      const int at = block * kBlock + c + 8 * j;
      if constexpr (!kInK) s[j] -= slope * static_cast<float>(position - at);
      const bool sees = at >= visible.first && at < visible.end;
      if (!sees) s[j] = -INFINITY;
      largest = fmaxf(largest, s[j]);
    }
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(lanes, largest, step));
    largest = fmaxf(largest, inner.largest);
    const float base = largest == -INFINITY ? 0.0f : largest;
    const float factor = exp2f(inner.largest - base);
    inner = {largest, inner.sum * factor};
#pragma unroll
    for (int j = 0; j < kBlock / 8; ++j) {
      const float weight = s[j] == -INFINITY ? 0.0f : exp2f(s[j] - base);
      inner.sum += weight;
      shared.weight[r][c + 8 * j] =
          s[j] == -INFINITY ? 0.0f : weight * shared.scales[kInK ? 0 : 1][c + 8 * j];
    }
    __syncwarp(lanes);
    AddValues(block, factor);
    __syncwarp(lanes);
  }

  __device__ void AddValues(int block, float factor) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      o[j].x *= factor;
      o[j].y *= factor;
      o[j].z *= factor;
      o[j].w *= factor;
    }
    // What the row does not see may be anything, so it is left out.
    const int from = max(visible.first - block * kBlock, 0);
    const int to = min(visible.end - block * kBlock, kBlock);
    for (int i = from; i < to; ++i) {
      const float weight = shared.weight[r][i];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (kInK && 32 * j >= values.width) break;
        const float* const row = kInK ? &shared.k[i][values.from] : shared.v[i];
        const float4 v = *reinterpret_cast<const float4*>(row + c * 4 + 32 * j);
        o[j].x = __fmaf_rn(weight, v.x, o[j].x);
        o[j].y = __fmaf_rn(weight, v.y, o[j].y);
        o[j].z = __fmaf_rn(weight, v.z, o[j].z);
        o[j].w = __fmaf_rn(weight, v.w, o[j].w);
      }
    }
  }

  __device__ void EndSplit(int split) {
    if (!valid) return;
    const unsigned lanes = 0xffu << (threadIdx.x % 32 / 8 * 8);
#pragma unroll
    for (int step = 1; step < 8; step *= 2) inner.sum += __shfl_xor_sync(lanes, inner.sum, step);
    const int from = visible.first_split(), to = visible.last_split();
    if (split >= from && split <= to) {
      if (from == to) {
        Finish(o, inner);
      } else if (tile.split()) {
        StorePartial(split);
      } else {
        Keep(split == from);
        if (split == to) Finish(kept, outer);
      }
    }
    ResetInner();
  }

  __device__ void Keep(bool first) {
    if (first) {
      outer = inner;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) kept[j] = o[j];
      return;
    }
    const float2 join = Join(&outer, inner);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      kept[j] = {Joined(kept[j].x, o[j].x, join), Joined(kept[j].y, o[j].y, join),
                 Joined(kept[j].z, o[j].z, join), Joined(kept[j].w, o[j].w, join)};
    }
  }

  __device__ void Finish(const float4 (&sums)[kColumns], const RowState& state) {
    const float factor = OverWeights(p, head, state);
    const int64_t to = token * p.out_stride + int64_t{head} * values.width;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const float four[4] = {sums[j].x, sums[j].y, sums[j].z, sums[j].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int d = c * 4 + 32 * j + i;
        if (d < values.width) StoreActivation(p, to + d, four[i] * factor);
      }
    }
  }

  __device__ void StorePartial(int split) {
    const int64_t at = PartialRow(p, tile.slot, token - tile.at.first_token, tile.splits,
                                  split - tile.first_split, head);
    if (c < values.parts) {
      reinterpret_cast<float2*>(p.partial_state)[at * values.parts + c] = {inner.largest,
                                                                           inner.sum};
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const float four[4] = {o[j].x, o[j].y, o[j].z, o[j].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int d = c * 4 + 32 * j + i;
        if (d < values.width) p.partial[at * values.width + d] = four[i];
      }
    }
  }
};

// A thread block's items of a step, one after another.
template <class Kernel>
__device__ void RunPlain(const AttentionParams& params, const PlainValues& values) {
  extern __shared__ __align__(16) char memory[];
  __shared__ Worklist::Shared items;
  Worklist work(params, items);
  while (const Tile* const tile = work.Next(params))
    Kernel(params, values, *reinterpret_cast<typename Kernel::Shared*>(memory), *tile).Run();
}

}  // namespace sluice::cuda
