// Decode of few sequences: the rows of one token and KV head, at most 8, and one split are an item
// of a cluster of four thread blocks (sm_90). Each thread block makes the scores of one block of 64
// positions, each of its warps those of 16, and writes them into the shared memory of all four;
// then it makes a quarter of the columns of the output from all positions of the split. So many
// multiprocessors share a split, and the order of its sums is that of stream_attention.cuh and
// mma_attention.cuh: a row's bits are the same there and here.
//
// The thread block that is last to store its columns of a row joins those of all splits in
// ascending order, by the arithmetic of any_f32_attention_combine.cu: nothing depends on which one
// it is, and there is no second launch.
//
// Nothing hides what such a step waits for, so waits are few. Before the kernel in front has ended,
// the code is gone through once and the pages of the first item are looked up in what the plan and
// the block table then hold; afterwards their K and V are asked for while both are read again. If
// they have changed, which they do at most once in a step, that item begins anew.
#pragma once

#include <type_traits>

#include "backend/cuda/attention/cluster_items.cuh"
#include "backend/cuda/attention/cluster_params.h"
#include "backend/cuda/attention/join_splits.cuh"
#include "backend/cuda/attention/kv_codes.cuh"
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"
#include "backend/cuda/simt/rehearsal.cuh"

namespace sluice::cuda {

template <class T, class Activation, KvForm kForm, int kDim>
struct ClusterAttention {
  static constexpr bool kCodes = kForm != KvForm::kPlain;
  static constexpr int kNumber = kCodes ? 1 : 2;  // bytes of one of K or V
  static constexpr int kWarps = kClusterThreads / 32, kBlock = 64, kPart = 16;
  static constexpr int kParts = kBlock / kPart, kAllParts = kSplitTokens / kPart;
  static constexpr int kBlocks = kSplitTokens / kBlock;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kColumns = kDim / kBlocks;  // of the output, of a thread block
  // Pieces of 16 bytes of a row of K and of those columns of V; rows lie an odd number apart.
  static constexpr int kChunksOfK = kDim * kNumber / 16, kChunksOfV = kColumns * kNumber / 16;
  static constexpr int kRowOfK = (kChunksOfK | 1) * 16, kRowOfV = (kChunksOfV | 1) * 16;
  static constexpr int kPiecesOfK = kBlock * kChunksOfK / kClusterThreads;  // of a thread
  static constexpr int kPiecesOfV = kSplitTokens * kChunksOfV / kClusterThreads;
  static constexpr uint32_t kNowhere = 0xffffffffu;
  static_assert(12 * 128 + kDim * 4 <= sizeof(Stage));
  static_assert(kParts == kWarps && kBlocks == kClusterBlocks && kColumns % 16 == 0);

  // Of a part's rows and positions: weights as they multiply V, and the lanes' shares of their sum.
  struct Weighed {
    uint2 weights[kAllParts][32];
    float sums[kAllParts][32];
  };
  struct Shared {
    // By turns, since the other thread blocks write those of the next item while this one reads.
    float4 scores[2][kAllParts][32];
    float largest[2][kAllParts][kStreamRows];
    char v[kSplitTokens * kRowOfV];
    union {
      char k[kBlock * kRowOfK];
      Weighed weighed;  // K is read by then
    };
    uint64_t arrived[2];  // scores, by turns
    float k_scales[kCodes ? kBlock : 4], v_scales[kCodes ? kSplitTokens : 4];
    int joins;
  };
  static_assert(sizeof(Shared) <= ClusterSharedBytes(kDim, kCodes));

  const AttentionParams& p;
  uint32_t* const counters;  // [query tokens, tiles of a token, KV heads, kBlocks], zeros
  Shared& shared;
  const int warp, lane, rank;
  const float score_factor;  // that is left to be applied
  ClusterItems items;
  ClusterItem item;
  // Of the thread's pieces, in 16 bytes.
  uint32_t k_at[kPiecesOfK], v_at[kPiecesOfV], scales_at = kNowhere;
  // Of the item's rows, the first of which is `head`: the lane's of Q, their output, what split 0
  // would leave, where splits have `heads` rows, and how many thread blocks have stored some.
  int head = 0, heads = 0;
  const Activation* q_row = nullptr;
  Activation* out = nullptr;
  float2* states = nullptr;
  float* partials = nullptr;
  uint32_t* counter = nullptr;
  bool rehearses = true;
  uint32_t turns = 0;     // items so far
  uint32_t q[kSteps][2];  // left factors: rows from 8 on are zeros
  // Of the lane's row: what scores are relative to, and the factors of what was summed before each
  // block.
  float base;  // of the warp's block
  float growth[kBlocks];
  RowState state;
  float o[4];

  __device__ ClusterAttention(const AttentionParams& params, uint32_t* zeros, Shared& memory)
      : p(params),
        counters(zeros),
        shared(memory),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32),
        rank(static_cast<int>(ClusterRank())),
        score_factor(ScoresAreProducts(params) ? params.factor : 1.0f),
        items(params) {}

  __device__ void Run() {
    LetNextBegin();
    if (threadIdx.x < 2) InitBarrier(SharedAddress(&shared.arrived[threadIdx.x]), 1);
    PublishBarriers();
    SyncCluster();  // all have begun: their shared memory is there
    item = Rehearsed();
    Place();
    enum { kRehearses, kGuessed, kLooksUp, kKnows } stage = kRehearses;
    const int clusters = static_cast<int>(gridDim.x) / kBlocks;
    int index = static_cast<int>(blockIdx.x) / kBlocks;
#pragma unroll 1
    for (;;) {
      const bool looks_up = stage == kLooksUp;
      if (!looks_up) {
        AskForKv();
        LoadQ();
      }
      ClusterItem found = item;
      if (stage != kGuessed) {
        items.Read();
        found = items.Find(stage == kKnows ? index + clusters : index);
      } else if (__syncthreads_or(items.Changed()) != 0) {
        WaitCopies<0>();
        __syncthreads();
        stage = kLooksUp;
        continue;
      }
      if (!looks_up) {
        if (item.tile.rows == 0) break;
        Attend();
        ++turns;
        if (!rehearses) index += clusters;
        if (stage == kGuessed) {
          if (index >= items.count()) break;
          stage = kLooksUp;
          continue;
        }
      }
      item = found;
      Place();
      stage = rehearses ? kGuessed : kKnows;
      if (!rehearses) continue;
      PrefetchKv();
      WaitForInputs();
      rehearses = false;
    }
    WaitCopies<0>();
  }

  // Where rehearsals read and write; not all thread blocks in one place.
  template <class Number>
  static __device__ Number* Aside() {
    return reinterpret_cast<Number*>(OnStage<unsigned char>() + blockIdx.x % 12 * 128);
  }
  // Reads and writes nothing but the stage and shared memory.
  __device__ static ClusterItem Rehearsed() {
    ClusterItem none = {};
    none.tile.at.tokens = 1;
    none.tile.rows = 1;
    none.tile.splits = none.tile.piece_end = 1;
    none.all = {0, 2 * kSplitTokens};
    none.page = {-1, 0};
    return none;
  }

  // Where the first of a part's positions lies, from the beginning of K or V or of their scales on,
  // of which a position has `numbers`; -1: nowhere. Lanes may ask for different parts.
  __device__ int64_t PartAt(int part, int64_t stride, int numbers) const {
    const int page = __shfl_sync(0xffffffffu, item.page.block, part);
    const int offset = __shfl_sync(0xffffffffu, item.page.offset, part);
    const int64_t inside = int64_t{item.tile.kv_head} * p.block_tokens + offset;
    return page < 0 ? -1 : page * stride + inside * numbers;
  }

  // Looks up where the thread's pieces of the item lie, all that needs no waiting.
  __device__ void Place() {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int j = 0; j < kPiecesOfK; ++j) {
      const int i = (thread + j * kClusterThreads) / kChunksOfK, chunk = thread % kChunksOfK;
      const int64_t at = PartAt(rank * kParts + i / kPart, p.k_stride, kDim);
      k_at[j] =
          at < 0 ? kNowhere : static_cast<uint32_t>((at + i % kPart * kDim) * kNumber / 16) + chunk;
    }
    const int first = item.tile.piece_begin * kSplitTokens;
#pragma unroll
    for (int j = 0; j < kPiecesOfV; ++j) {
      const int i = (thread + j * kClusterThreads) / kChunksOfV, chunk = thread % kChunksOfV;
      const int64_t at = PartAt(i / kPart, p.v_stride, kDim);
      const int64_t from = (at + i % kPart * kDim + rank * kColumns) * kNumber / 16;
      // V of what rows do not see may be anything, and 0 * NaN is no 0.
      const bool seen = first + i >= item.all.first && first + i < item.all.end;
      v_at[j] = at < 0 || !seen ? kNowhere : static_cast<uint32_t>(from) + chunk;
    }
    if constexpr (kCodes) {
      const bool of_v = thread < kSplitTokens / 4;
      const int i = (of_v ? thread : thread - kSplitTokens / 4) * 4;
      const int part = of_v ? i / kPart : rank * kParts + i / kPart;
      const int64_t at = PartAt(part % kAllParts, of_v ? p.v_scale_stride : p.k_scale_stride, 1);
      scales_at = at < 0 ? kNowhere : static_cast<uint32_t>((at + i % kPart) / 4);
    }
    PlaceRows();
  }
  // All rows of an item are heads of one token, one behind the other.
  __device__ void PlaceRows() {
    const Tile& tile = item.tile;
    const int token = tile.row / p.group, of_group = tile.row % p.group;
    head = tile.kv_head * p.group + of_group;
    if (rehearses && turns == 0) {
      q_row = Aside<const Activation>();
      out = Aside<Activation>();
      states = Aside<float2>();
      partials = Aside<float>();
      heads = 0;
      counter = Aside<uint32_t>();
      return;
    }
    const int64_t of_step = tile.at.first_token + token;
    q_row = static_cast<const Activation*>(p.q) + of_step * p.q_stride +
            int64_t{head + lane / 4} * kDim;
    out = static_cast<Activation*>(p.out) + of_step * p.out_stride + int64_t{head} * kDim;
    const int64_t row = PartialRow(p, tile.slot, token, tile.splits, -tile.first_split, head);
    states = reinterpret_cast<float2*>(p.partial_state) + row;
    partials = p.partial + row * kDim;
    heads = p.q_heads;
    counter = counters +
              ((of_step * StreamTiles(p) + of_group / kStreamRows) * p.kv_heads + tile.kv_head) *
                  kBlocks +
              rank;
  }

  // A piece of 16 bytes.
  static __device__ void AskFor(uint32_t to, const void* tensor, uint32_t at) {
    const bool take = at != kNowhere;
    CopyAsync<16>(to, static_cast<const uint4*>(tensor) + (take ? at : 0), take);
  }
  // Begins to copy K of the thread block's positions and scales, and behind them its columns of V.
  __device__ void AskForKv() {
    const int thread = static_cast<int>(threadIdx.x);
    const uint32_t to_k =
        SharedAddress(shared.k) + thread / kChunksOfK * kRowOfK + thread % kChunksOfK * 16;
    const uint32_t to_v =
        SharedAddress(shared.v) + thread / kChunksOfV * kRowOfV + thread % kChunksOfV * 16;
#pragma unroll
    for (int j = 0; j < kPiecesOfK; ++j)
      AskFor(to_k + j * (kClusterThreads / kChunksOfK * kRowOfK), p.k, k_at[j]);
    if constexpr (kCodes) {
      constexpr int kOfV = kSplitTokens / 4, kOfK = kBlock / 4;
      if (thread < kOfV)
        AskFor(SharedAddress(shared.v_scales + thread * 4), p.v_scale, scales_at);
      else if (thread < kOfV + kOfK)
        AskFor(SharedAddress(shared.k_scales + (thread - kOfV) * 4), p.k_scale, scales_at);
    }
    CommitCopies();
#pragma unroll
    for (int j = 0; j < kPiecesOfV; ++j)
      AskFor(to_v + j * (kClusterThreads / kChunksOfV * kRowOfV), p.v, v_at[j]);
    CommitCopies();
  }

  // Brings K and V of the thread block's positions as far as the device's cache, whatever they are.
  __device__ void PrefetchKv() const {
    constexpr int kLines = kPart * kDim * kNumber / 128;  // of a part
    const int thread = static_cast<int>(threadIdx.x);
    const int part = rank * kParts + thread / kLines % kParts;
    const int64_t k = PartAt(part, p.k_stride, kDim), v = PartAt(part, p.v_stride, kDim);
    if (thread >= kLines * kParts || k < 0) return;
    const int64_t line = thread % kLines * 128;
    const auto prefetch = [](const void* at) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    };
    prefetch(static_cast<const char*>(p.k) + k * kNumber + line);
    prefetch(static_cast<const char*>(p.v) + v * kNumber + line);
  }

  // Two numbers of a query row as T.
  static __device__ uint32_t AsFactors(uint32_t pair) {
    if constexpr (std::is_same_v<T, Activation>) return pair;
    const Activation* two = reinterpret_cast<const Activation*>(&pair);
    return Pack<T>(ToFloat(two[0]), ToFloat(two[1]));
  }
  // With codes, in the order in which they come to a lane (stream_attention.cuh).
  __device__ void LoadQ() {
    const Activation* const row = q_row + lane % 4 * (kCodes ? 4 : 2);
    const bool has = lane / 4 < item.tile.rows;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      uint2 four = {0, 0};
      if constexpr (kCodes) {
        if (has) four = *reinterpret_cast<const uint2*>(row + step * 16);
        const uint32_t low = AsFactors(four.x), high = AsFactors(four.y);
        q[step][0] = __byte_perm(low, high, 0x5410);
        q[step][1] = __byte_perm(low, high, 0x7632);
      } else {
        if (has) {
          four.x = *reinterpret_cast<const uint32_t*>(row + step * 16);
          four.y = *reinterpret_cast<const uint32_t*>(row + step * 16 + 8);
        }
        q[step][0] = AsFactors(four.x);
        q[step][1] = AsFactors(four.y);
      }
    }
  }

  // Whether rows see something of a block of the split.
  __device__ bool Sees(int block) const {
    const int first = item.tile.piece_begin * kSplitTokens + block * kBlock;
    return first < item.all.end && first + kBlock > item.all.first;
  }

  __device__ void Attend() {
    const uint32_t turn = turns % 2, arrived = SharedAddress(&shared.arrived[turn]);
    if (threadIdx.x == 0) ArriveExpecting(arrived, kScoresBytes);
    WaitCopies<1>();
    __syncthreads();
    // Of blocks that the rows do not see, too: who has the scores of all thread blocks knows that
    // these are done with those of the item before the last one, whose place the next take.
    Score(turn);
    WaitBarrier(arrived, turns / 2 % 2);
    Grow(turn);
    if (Sees(warp)) Weigh(turn);
    WaitCopies<0>();
    __syncthreads();
    Sum();
    const int split = item.tile.piece_begin;
    const int first = item.all.first_split(), last = item.all.last_split();
    if (split >= first && split <= last) {
      if (first == last) {
        Finish();
      } else {
        StorePartial(split);
        if (ArriveLast(last - first + 1)) Join(first, last - first + 1);
      }
    }
    __syncthreads();  // K and V are read, and `joins`
  }

  // Of the lane's two positions among eight.
  __device__ float2 ScalesAt(const float* eight) const {
    return *reinterpret_cast<const float2*>(eight + lane % 4 * 2);
  }

  // Scores of the warp's part, for all thread blocks.
  static constexpr uint32_t kScoresBytes = kAllParts * (32 * 16 + kStreamRows * 4);
  __device__ void Score(uint32_t turn) {
    const int part = rank * kParts + warp;
    float sums[2][4] = {};
    const int position = kCodes ? lane % 16 : lane % 8 + lane / 16 * 8;
    const uint32_t k = SharedAddress(shared.k) + (warp * kPart + position) * kRowOfK +
                       (kCodes ? lane / 16 : lane / 8 % 2) * 16;
#pragma unroll
    for (int step = 0; step < kSteps; step += kCodes ? 2 : 1) {
      uint32_t b[4];
      LoadMatrices(k + step * (kCodes ? 16 : 32), b);
      if constexpr (!kCodes) {
        const uint32_t a[4] = {q[step][0], 0, q[step][1], 0};
        MultiplyAdd<T>(sums[0], a, b[0], b[1]);
        MultiplyAdd<T>(sums[1], a, b[2], b[3]);
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t a[4] = {q[step + i][0], 0, q[step + i][1], 0};
          const uint32_t one = b[2 * i], two = b[2 * i + 1];
          MultiplyAdd<T>(sums[0], a, WidenEven<kForm>(one), WidenOdd<kForm>(one));
          MultiplyAdd<T>(sums[1], a, WidenEven<kForm>(two), WidenOdd<kForm>(two));
        }
      }
    }
    float s[2][2];  // of positions 8 j + lane % 4 * 2 + i of the part
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float2 scales = {1.0f, 1.0f};
      if constexpr (kCodes) scales = ScalesAt(shared.k_scales + warp * kPart + 8 * j);
      s[j][0] = kCodes ? sums[j][0] * scales.x : sums[j][0];
      s[j][1] = kCodes ? sums[j][1] * scales.y : sums[j][1];
    }
    if (!ScoresAreProducts(p)) MakeScores(p, s);
    float largest = -INFINITY;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = item.tile.piece_begin * kSplitTokens + part * kPart + 8 * j + lane % 4 * 2;
        if (at + i < item.all.first || at + i >= item.all.end) s[j][i] = -INFINITY;
        largest = fmaxf(largest, s[j][i]);
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2)) * score_factor;
    const uint32_t scores_at = SharedAddress(&shared.scores[turn][part][lane]);
    const uint32_t largest_at = SharedAddress(&shared.largest[turn][part][lane / 4]);
    const uint32_t arrived = SharedAddress(&shared.arrived[turn]);
#pragma unroll
    for (int to = 0; to < kBlocks; ++to) {
      SendFour(scores_at, to, {s[0][0], s[0][1], s[1][0], s[1][1]}, arrived);
      if (lane % 4 == 0) Send(largest_at, to, largest, arrived);
    }
  }

  // What the largest scores of one block after another make of the row's bases.
  __device__ void Grow(uint32_t turn) {
    state = {-INFINITY, 0.0f};
    base = 0.0f;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      float of_block = 0.0f;
      growth[block] = 1.0f;
      if (!Sees(block)) continue;
      float largest = -INFINITY;
#pragma unroll
      for (int i = 0; i < kParts; ++i)
        largest = fmaxf(largest, shared.largest[turn][block * kParts + i][lane / 4]);
      growth[block] = cuda::Grow(&state, largest, &of_block);
      if (block == warp) base = of_block;
    }
  }

  // Weights of the warp's block from its scores.
  __device__ void Weigh(uint32_t turn) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const int part = warp * kParts + i;
      const float4 scores = shared.scores[turn][part][lane];
      float s[4] = {scores.x, scores.y, scores.z, scores.w}, sum = 0.0f;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float2 scales = {1.0f, 1.0f};
        if constexpr (kCodes) scales = ScalesAt(shared.v_scales + part * kPart + 8 * j);
#pragma unroll
        for (int k = 2 * j; k < 2 * j + 2; ++k) {
          const bool hidden = s[k] == -INFINITY;
          s[k] = PowerOfTwo(__fmaf_rn(s[k], score_factor, -base));
          sum = __fadd_rn(sum, s[k]);
          if constexpr (kCodes) s[k] = hidden ? 0.0f : s[k] * (k % 2 == 0 ? scales.x : scales.y);
        }
      }
      shared.weighed.weights[part][lane] = {Pack<T>(s[0], s[1]), Pack<T>(s[2], s[3])};
      shared.weighed.sums[part][lane] = sum;
    }
  }

  // Whether the warp has columns: eight that follow one another, with codes every other of sixteen.
  __device__ bool HasColumns() const { return warp < kColumns / 8; }
  // That of o[i].
  __device__ int Column(int i) const {
    const int of_block =
        kCodes ? warp / 2 * 16 + lane % 4 * 4 + warp % 2 + 2 * i : warp * 8 + lane % 4 * 2 + i;
    return rank * kColumns + of_block;
  }

  // Sums weights, and V by them, over the positions of the split, in ascending order.
  __device__ void Sum() {
    const uint32_t v = SharedAddress(shared.v) + lane * kRowOfV + (kCodes ? warp / 2 : warp) * 16;
    state.sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) o[i] = 0.0f;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      if (!Sees(block)) continue;
      state.sum = __fmul_rn(state.sum, growth[block]);
      o[0] = __fmul_rn(o[0], growth[block]);
      o[1] = __fmul_rn(o[1], growth[block]);
#pragma unroll
      for (int i = 0; i < kParts; i += 2) {
        uint32_t b[4];
        if (HasColumns()) LoadMatricesTransposed(v + (block * kBlock + i * kPart) * kRowOfV, b);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int part = block * kParts + i + j;
          state.sum = __fadd_rn(state.sum, shared.weighed.sums[part][lane]);
          if (!HasColumns()) continue;
          const uint2 two = shared.weighed.weights[part][lane];
          const uint32_t a[4] = {two.x, 0, two.y, 0};
          uint32_t low = b[2 * j], high = b[2 * j + 1];
          if constexpr (kCodes) {
            low = warp % 2 == 0 ? WidenEven<kForm>(low) : WidenOdd<kForm>(low);
            high = warp % 2 == 0 ? WidenEven<kForm>(high) : WidenOdd<kForm>(high);
          }
          MultiplyAdd<T>(o, a, low, high);
        }
      }
    }
    state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 1);
    state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 2);
  }

  __device__ void Finish() const {
    const int r = lane / 4;
    if (r >= item.tile.rows || !HasColumns()) return;
    const float factor = OverWeights(p, head + r, state);
#pragma unroll
    for (int i = 0; i < 2; ++i) out[r * kDim + Column(i)] = FromFloat<Activation>(o[i] * factor);
  }

  __device__ void StorePartial(int split) const {
    const int r = lane / 4;
    if (r >= item.tile.rows) return;
    const int64_t row = int64_t{split} * heads + r;
    // Each thread block stores the same state, since none may rely on when another does.
    if (warp == 0 && lane % 4 == 0) states[row] = {state.largest, state.sum};
    if (!HasColumns()) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) partials[row * kDim + Column(i)] = o[i];
  }

  // Counts the thread blocks of this rank that have stored the row's splits; true in the last one
  // of them, to which all that they stored is visible.
  __device__ bool ArriveLast(int splits) {
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t before;
      asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                   : "=r"(before)
                   : "l"(counter)
                   : "memory");
      const bool last = before + 1 == static_cast<uint32_t>(splits);
      if (last) *counter = 0;  // for the next launch
      shared.joins = last || rehearses ? 1 : 0;
    }
    __syncthreads();
    return shared.joins != 0;
  }

  // Joins the splits of the rows, a warp those of one row after another.
  __device__ void Join(int first_split, int splits) const {
#pragma unroll 1
    for (int r = warp; r < item.tile.rows; r += kWarps) {
      const int64_t first = int64_t{first_split} * heads + r;
      const int column = rank * kColumns + lane % kColumns;
      RowState joined;
      const float value = JoinSplits(states + first, partials + first * kDim + column, heads, kDim,
                                     splits, &joined);
      const float over = OverWeights(p, head + r, joined);
      if (lane < kColumns) out[r * kDim + column] = FromFloat<Activation>(value * over);
    }
  }
};

}  // namespace sluice::cuda

// Defines kernel `name` for one size of heads.
#define SLUICE_CLUSTER_ATTENTION(name, T, Activation, form, dim)                                   \
  extern "C" __global__ void __cluster_dims__(sluice::cuda::kClusterBlocks, 1, 1)                  \
      __launch_bounds__(sluice::cuda::kClusterThreads, sluice::cuda::kClusterBlocksPerUnit)        \
          name(const __grid_constant__ sluice::cuda::AttentionParams params, uint32_t* counters) { \
    using namespace sluice::cuda;                                                                  \
    using Cluster = ClusterAttention<T, Activation, KvForm::form, dim>;                            \
    extern __shared__ __align__(16) char memory[];                                                 \
    Cluster(params, counters, *reinterpret_cast<typename Cluster::Shared*>(memory)).Run();         \
  }

// Kernels `name`_64 and `name`_128, one for each size of heads.
#define SLUICE_CLUSTER_ATTENTION_SIZES(name, T, Activation, form) \
  SLUICE_CLUSTER_ATTENTION(name##_64, T, Activation, form, 64)    \
  SLUICE_CLUSTER_ATTENTION(name##_128, T, Activation, form, 128)
