// Decode of long contexts in codes (sm_90): the rows of one token and KV head, at most 16, which
// all see the same. Each warp of the thread block takes every fourth split of an item by itself. It
// has a ring in shared memory that the copy engine fills with boxes of 16 positions, four of K and
// four of V in turn, and asks for the next box as soon as it has read one: no warp waits for
// another while it has bytes to read. Codes are widened in registers. Where an item has all of its
// sequence, the warps join their splits in ascending order, each when it is its turn.
//
// The arithmetic and its order are those of mma_attention.cuh, so a row's bits are the same there
// and here.
#pragma once

#include "backend/cuda/attention/kv_codes.cuh"
#include "backend/cuda/attention/kv_maps.h"
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

// A number in shared memory that tells the thread block's warps of each other: who has loaded it
// sees what was written before it was stored.
__device__ __forceinline__ int LoadAcquire(const int* from) {
  int value;
  asm volatile("ld.acquire.cta.shared.s32 %0, [%1];"
               : "=r"(value)
               : "r"(SharedAddress(from))
               : "memory");
  return value;
}
__device__ __forceinline__ void StoreRelease(int* to, int value) {
  asm volatile("st.release.cta.shared.s32 [%0], %1;" ::"r"(SharedAddress(to)), "r"(value)
               : "memory");
}

template <class T, class Activation, KvForm kForm, int kDim>
struct StreamAttention {
  static constexpr int kWarps = kMmaWarps, kBlock = 64, kBox = kStreamBox;
  static constexpr int kParts = kBlock / kBox;
  static constexpr int kBlocksPerSplit = kSplitTokens / kBlock;
  static constexpr int kSteps = kDim / 16, kColumns = kDim / 8;  // columns: in eights
  static constexpr int kBoxBytes = kStreamBoxBytes, kSlots = kStreamSlots;

  // Rings, and what an item's splits have given so far. A lane of one warp finds there what the
  // same lane of the warp before it has left.
  struct Shared {
    char ring[kWarps][kSlots][kBoxBytes];
    float scales[kWarps][kSlots][kBox];  // of codes, of the box in the slot
    float4 outer[kColumns][32];
    RowState states[2][32];
    int turn;  // the split that joins next
  };
  static_assert(sizeof(Shared) <= StreamSharedBytes(kDim));

  // What outlives items: the barriers of the warps' slots, and where each warp's ring begins the
  // next item, with the parity of the phase that ends there first.
  struct Rings {
    uint64_t full[kWarps][kSlots];
    int slot[kWarps];
    uint32_t parity[kWarps];

    // All threads call together, before a barrier.
    __device__ void Init() {
      if (threadIdx.x < kWarps) slot[threadIdx.x] = 0, parity[threadIdx.x] = 0;
      if (threadIdx.x < kWarps * kSlots) InitBarrier(SharedAddress(&full[0][0] + threadIdx.x), 1);
      PublishBarriers();
    }
  };

  const AttentionParams& p;
  const KvMaps& maps;
  Shared& shared;
  Rings& rings;
  const Tile& tile;
  const int warp, lane;
  const float score_factor;  // that is left to be applied
  int slot;                  // that is read next
  uint32_t parity;           // of the phase that ends then
  Visible all;
  bool valid[2];  // the thread's rows
  RowState state[2];
  float o[kColumns][4];
  uint32_t q[kSteps][4];

  // What is asked for next: a part of a block, first those of K, then those of V. The lanes have
  // the pages of a split's boxes, and those of the split that follows.
  int ahead_block, ahead_part, end_block;
  KvRow pages, next_pages;

  __device__ StreamAttention(const AttentionParams& params, const KvMaps& kv_maps, Shared& memory,
                             Rings& of_warps, const Tile& item)
      : p(params),
        maps(kv_maps),
        shared(memory),
        rings(of_warps),
        tile(item),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32),
        score_factor(ScoresAreProducts(params) ? params.factor : 1.0f),
        slot(of_warps.slot[threadIdx.x / 32]),
        parity(of_warps.parity[threadIdx.x / 32]) {}

  __device__ void Run() {
    all = VisibleToRows(p, tile.at, tile.row, tile.rows);
    const BlockWalk<kBlock> walk(tile, all);
    const int first_split = walk.begin / kBlocksPerSplit, split = first_split + warp;
    ahead_part = 0;
    ahead_block = max(walk.begin, split * kBlocksPerSplit);
    end_block = walk.end;
    pages = FindPages(split);
    next_pages = FindPages(split + kWarps);
    if (threadIdx.x == 0) shared.turn = first_split;
    // What threads wrote here for the item before this one lies before the copies.
    PublishToMatrices();
    __syncthreads();
    for (int i = 0; i < kSlots; ++i) Ask((slot + i) % kSlots);
    LoadQ();
    Reset();
    for (int block = max(walk.begin, split * kBlocksPerSplit); block < walk.end;) {
      Attend(block);
      const int next = block + 1;
      if (walk.EndsSplit(block)) {
        EndSplit(block / kBlocksPerSplit);
        block = next % kBlocksPerSplit == 0 ? next + (kWarps - 1) * kBlocksPerSplit : walk.end;
      } else {
        block = next;
      }
    }
    __syncwarp();
    if (lane == 0) rings.slot[warp] = slot, rings.parity[warp] = parity;
  }

  // Where the lane's box of a split lies: nowhere, if no row sees it.
  __device__ KvRow FindPages(int split) const {
    const int position = split * kSplitTokens + lane * kBox;
    if (lane >= kSplitTokens / kBox || position >= all.end || position + kBox <= all.first)
      return {-1, 0};
    const int column = position / p.block_tokens;
    return {p.block_table[tile.at.index * p.table_stride + column],
            position - column * p.block_tokens};
  }

  // Asks for the next box, if there is one. All lanes are past their use of the slot.
  __device__ __forceinline__ void Ask(int to) {
    if (ahead_block >= end_block) return;
    const int box = ahead_block % kBlocksPerSplit * kParts + ahead_part % kParts;
    const int block = __shfl_sync(0xffffffffu, pages.block, box);
    const int offset = __shfl_sync(0xffffffffu, pages.offset, box);
    const bool is_v = ahead_part >= kParts, there = block >= 0 && block < p.kernel_blocks;
    if (!there) ClearScales(shared.scales[warp][to]);
    if (lane == 0) {
      const uint32_t arrived = SharedAddress(&rings.full[warp][to]);
      ArriveExpecting(arrived, kBoxBytes + (there ? kBox * 4 : 0));
      // The first block behind the tensor: zeros.
      CopyBox(SharedAddress(shared.ring[warp][to]), is_v ? &maps.v : &maps.k, 0, offset,
              tile.kv_head, there ? block : p.kernel_blocks, arrived);
      if (there) {
        const int64_t inside = int64_t{tile.kv_head} * p.block_tokens + offset;
        const float* const from = is_v ? p.v_scale + block * p.v_scale_stride + inside
                                       : p.k_scale + block * p.k_scale_stride + inside;
        CopyBytes(SharedAddress(shared.scales[warp][to]), from, kBox * 4, arrived);
      }
    }
    if (++ahead_part < 2 * kParts) return;
    ahead_part = 0;
    if (++ahead_block % kBlocksPerSplit != 0) return;
    ahead_block += (kWarps - 1) * kBlocksPerSplit;
    pages = next_pages;
    next_pages = FindPages(ahead_block / kBlocksPerSplit + kWarps);
  }

  // Rare. It sees its argument alone, so that all else stays in registers.
  static __device__ __noinline__ void ClearScales(float* scales) {
    if (threadIdx.x % 32 < kBox) scales[threadIdx.x % 32] = 0.0f;
    PublishToMatrices();
    __syncwarp();
  }

  __device__ const char* Await() const {
    WaitBarrier(SharedAddress(&rings.full[warp][slot]), parity);
    return shared.ring[warp][slot];
  }
  __device__ void Advance() {
    __syncwarp();
    Ask(slot);
    if (++slot < kSlots) return;
    slot = 0;
    parity ^= 1;
  }

  // Two neighbouring numbers of a query row's head.
  __device__ float2 QPair(int i, int column) const {
    if (!valid[i] || column >= p.head_dim) return {0.0f, 0.0f};
    const int r = lane / 4 + 8 * i;
    const Activation* const from = static_cast<const Activation*>(p.q) +
                                   tile.at.first_token * p.q_stride +
                                   (int64_t{tile.kv_head} * p.group + r) * p.head_dim + column;
    const uint32_t pair = *reinterpret_cast<const uint32_t*>(from);
    const Activation* two = reinterpret_cast<const Activation*>(&pair);
    return {ToFloat(two[0]), ToFloat(two[1])};
  }

  // Sixteen products are added at once, in whatever order they stand: here it is the one in which
  // codes come to a lane, four neighbours together.
  __device__ void LoadQ() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      valid[i] = lane / 4 + 8 * i < tile.rows;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int at = step * 16 + lane % 4 * 4;
        const float2 first = QPair(i, at), second = QPair(i, at + 2);
        q[step][i] = Pack<T>(first.x, second.x);
        q[step][i + 2] = Pack<T>(first.y, second.y);
      }
    }
  }

  __device__ void Reset() {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[j][i] = 0.0f;
    }
    state[0] = state[1] = {-INFINITY, 0.0f};
  }

  // Sixteen codes of a position in the box at `box`.
  __device__ static uint32_t ChunkAt(const char* box, int position, int chunk) {
    return SharedAddress(box) + position * 128 + (chunk ^ position % 8) * 16;
  }

  // Products of the rows with a box of K: those of positions 0 to 7, then 8 to 15.
  __device__ void MultiplyK(const char* box, float (&low)[4], float (&high)[4]) const {
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      uint32_t b[4];
      LoadMatrices(ChunkAt(box, lane % 16, step + lane / 16), b);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t first = b[2 * i], second = b[2 * i + 1];
        MultiplyAdd<T>(low, q[step + i], WidenEven<kForm>(first), WidenOdd<kForm>(first));
        MultiplyAdd<T>(high, q[step + i], WidenEven<kForm>(second), WidenOdd<kForm>(second));
      }
    }
  }

  // Adds the products of a box of V with its weights. A lane has four neighbouring columns of
  // sixteen: the first and the third in one piece of sums, the others in the next.
  __device__ void MultiplyV(const char* box, const uint32_t (&a)[4]) {
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      uint32_t b[4];
      LoadMatricesTransposed(ChunkAt(box, lane % 16, step + lane / 16), b);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t low = b[2 * i], high = b[2 * i + 1];
        float(*const to)[4] = &o[2 * (step + i)];
        MultiplyAdd<T>(to[0], a, WidenEven<kForm>(low), WidenEven<kForm>(high));
        MultiplyAdd<T>(to[1], a, WidenOdd<kForm>(low), WidenOdd<kForm>(high));
      }
    }
  }

  // Scales of the lane's positions in the box that is read.
  __device__ float Scale(int j, int i) const {
    return shared.scales[warp][slot][8 * j + lane % 4 * 2 + i];
  }

  __device__ __forceinline__ void Attend(int block) {
    const bool border = block * kBlock < all.first || (block + 1) * kBlock > all.end;
    float s[2 * kParts][4];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      float(&low)[4] = s[2 * part], (&high)[4] = s[2 * part + 1];
#pragma unroll
      for (int i = 0; i < 4; ++i) low[i] = high[i] = 0.0f;
      MultiplyK(Await(), low, high);
#pragma unroll
      for (int i = 0; i < 4; ++i) low[i] *= Scale(0, i % 2), high[i] *= Scale(1, i % 2);
      Advance();
    }
    if (!ScoresAreProducts(p)) MakeScores(p, s);
    if (border) Hide(block, s);
    float base[2];
    Rescale(s, base);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const char* const box = Await();
      uint32_t a[4];
      Weigh(base, s[2 * part], s[2 * part + 1], a);
      MultiplyV(box, a);
      Advance();
    }
  }

  // Takes out the positions of a block that the rows do not see.
  __device__ void Hide(int block, float (&s)[2 * kParts][4]) const {
#pragma unroll
    for (int j = 0; j < 2 * kParts; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = block * kBlock + 8 * j + lane % 4 * 2 + i % 2;
        if (position < all.first || position >= all.end) s[j][i] = -INFINITY;
      }
    }
  }

  // What a block's largest scores make of the rows' bases; what was summed so far is scaled to
  // them.
  __device__ void Rescale(const float (&s)[2 * kParts][4], float (&base)[2]) {
    float growth[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float largest = -INFINITY;
#pragma unroll
      for (int j = 0; j < 2 * kParts; ++j)
        largest = fmaxf(largest, fmaxf(s[j][2 * i], s[j][2 * i + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2)) * score_factor;
      growth[i] = Grow(&state[i], largest, &base[i]);
    }
    if (!__any_sync(0xffffffffu, growth[0] != 1.0f || growth[1] != 1.0f)) return;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[j][i] = __fmul_rn(o[j][i], growth[i / 2]);
    }
  }

  // Weights of a box from its scores, as the left factors of its products with V.
  __device__ void Weigh(const float (&base)[2], float (&low)[4], float (&high)[4],
                        uint32_t (&a)[4]) {
    float sums[2] = {0.0f, 0.0f};
    const auto weigh = [&](float(&s)[4], int j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool hidden = s[i] == -INFINITY;
        s[i] = PowerOfTwo(__fmaf_rn(s[i], score_factor, -base[i / 2]));
        sums[i / 2] = __fadd_rn(sums[i / 2], s[i]);
        s[i] = hidden ? 0.0f : s[i] * Scale(j, i % 2);
      }
    };
    weigh(low, 0);
    weigh(high, 1);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      state[i].sum = __fadd_rn(state[i].sum, sums[i]);
      a[i] = Pack<T>(low[2 * i], low[2 * i + 1]);
      a[i + 2] = Pack<T>(high[2 * i], high[2 * i + 1]);
    }
  }

  __device__ void EndSplit(int split) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      state[i].sum += __shfl_xor_sync(0xffffffffu, state[i].sum, 1);
      state[i].sum += __shfl_xor_sync(0xffffffffu, state[i].sum, 2);
    }
    if (tile.split()) {
      StorePartial(split);
    } else {
      JoinInTurn(split);
    }
    Reset();
  }

  // The splits before this one have joined when it is its turn.
  __device__ void JoinInTurn(int split) {
    while (LoadAcquire(&shared.turn) != split) {
    }
    if (split > all.first_split()) {
      float2 join[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        RowState outer = shared.states[i][lane];
        join[i] = Join(&outer, state[i]);
        state[i] = outer;
      }
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float4 four = shared.outer[j][lane];
        o[j][0] = Joined(four.x, o[j][0], join[0]);
        o[j][1] = Joined(four.y, o[j][1], join[0]);
        o[j][2] = Joined(four.z, o[j][2], join[1]);
        o[j][3] = Joined(four.w, o[j][3], join[1]);
      }
    }
    if (split == all.last_split()) return Finish();
#pragma unroll
    for (int i = 0; i < 2; ++i) shared.states[i][lane] = state[i];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) shared.outer[j][lane] = {o[j][0], o[j][1], o[j][2], o[j][3]};
    __syncwarp();
    if (lane == 0) StoreRelease(&shared.turn, split + 1);
  }

  // Hands pairs of neighbouring columns of row i to `store`, with the first one's number.
  template <class Store>
  __device__ void ForPairs(int i, const Store& store) const {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int column = j / 2 * 16 + lane % 4 * 4 + j % 2 * 2;
      if (column >= p.head_dim) continue;
      store(column, o[j / 2 * 2][2 * i + j % 2], o[j / 2 * 2 + 1][2 * i + j % 2]);
    }
  }

  __device__ void Finish() const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!valid[i]) continue;
      const int head = tile.kv_head * p.group + lane / 4 + 8 * i;
      const float factor = OverWeights(p, head, state[i]);
      Activation* const to = static_cast<Activation*>(p.out) + tile.at.first_token * p.out_stride +
                             int64_t{head} * p.head_dim;
      ForPairs(i, [&](int column, float first, float second) {
        *reinterpret_cast<uint32_t*>(to + column) =
            Pack<Activation>(first * factor, second * factor);
      });
    }
  }

  __device__ void StorePartial(int split) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!valid[i]) continue;
      const int64_t at = PartialRow(p, tile.slot, 0, tile.splits, split - tile.first_split,
                                    tile.kv_head * p.group + lane / 4 + 8 * i);
      if (lane % 4 == 0)
        reinterpret_cast<float2*>(p.partial_state)[at] = {state[i].largest, state[i].sum};
      float* const to = p.partial + at * p.head_dim;
      ForPairs(i, [&](int column, float first, float second) {
        *reinterpret_cast<float2*>(to + column) = {first, second};
      });
    }
  }
};

}  // namespace sluice::cuda
