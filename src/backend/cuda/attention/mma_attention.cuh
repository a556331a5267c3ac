// Attention on matrix instructions. A thread block has up to 64 rows of one KV head, a warp 16 of
// them; where there are no more than 16 (decode), the warps share them: each makes the scores of
// some positions and, with the weights of all, some columns of the output. Steps that only decode
// have a kernel of their own (stream_attention.cuh). All forms do the same arithmetic in the same
// order, so a row's bits are the same in prefill and decode. KV comes through two stages of shared
// memory in blocks of positions; codes are widened there to T, which is exact, and their scales are
// applied to scores and weights. Weights are rounded to T before they multiply V. What a row does
// not see may be any bytes, NaN too, and adds nothing.
#pragma once

#include <type_traits>

#include "backend/cuda/attention/kv_codes.cuh"
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

// kTogether: the warps share the same 16 rows.
template <class T, class Activation, KvForm kForm, int kDim, bool kTogether>
struct MmaAttention {
  static constexpr int kRows = kTogether ? 16 : 64, kThreads = kMmaThreads, kWarps = kMmaWarps;
  static constexpr int kBlock = kDim <= 128 ? 64 : 32;  // positions
  static constexpr int kRing = 4;
  static constexpr bool kCodes = kForm != KvForm::kPlain;
  static constexpr bool kKeepQ = kDim <= 128;  // in registers
  static constexpr int kSteps = kDim / 16;
  static constexpr int kParts = kBlock / 16;  // of a block: positions of a step of products with V
  // Of the output, in eights of columns: all, and those of a warp.
  static constexpr int kAllColumns = kDim / 8;
  static constexpr int kColumns = kTogether ? (kDim / 16 + kWarps - 1) / kWarps * 2 : kAllColumns;
  // Matrices read before they are used.
  static constexpr int kAhead = kColumns / 2 % 4 == 0 ? 4 : kColumns / 2 % 2 == 0 ? 2 : 1;
  static constexpr int kRowBytes = kDim * 2 + 16;  // padded: rows begin in different banks
  static constexpr int kTileBytes = kBlock * kRowBytes;
  static constexpr int kChunks = kDim / 8;  // of eight numbers, in a row
  static constexpr int kCodeTileBytes = kBlock * kDim;
  static constexpr int kStages = 2;
  static constexpr int kTiles = kCodes ? 1 : kStages;
  // Where K and V of a position lie, in bytes, or their scales, in numbers; -1: nowhere.
  struct Place {
    int64_t k, v;
  };
  // Shared memory, in this order.
  struct Shared {
    char kv[kTiles][2][kTileBytes];
    char codes[kCodes ? kStages : 1][2][kCodes ? kCodeTileBytes : 16];
    float scales[kStages][2][kBlock];
    Place places[kRing][kBlock];
    Place scale_places[kCodes ? kRing : 1][kCodes ? kBlock : 1];
    uint4 q[kKeepQ ? 1 : kSteps * kThreads];
    float4 outer[kAllColumns * kThreads];
  };
  static_assert(sizeof(Shared) == MmaSharedBytes(kDim, kCodes));

  // What warps that share rows tell each other of a block, in the memory of `outer`.
  struct Exchange {
    uint4 weights[kParts][32];  // packed as the lanes' left factors
    float largest[kParts][16];
    float sums[kParts][2][32];
  };
  static_assert(sizeof(Exchange) <= sizeof(Shared::outer));

  // Products of a block's weights with V in which, for each row, what it does not see is 0: the
  // bits that it has beside finite V.
  struct SeenV {
    uint32_t v;                   // what the lane reads of the block in shared memory
    int first[2], end[2];         // what the thread's rows see of it
    uint32_t weights[kParts][4];  // the left factors
    float4 o[kColumns];

    __device__ __noinline__ void Multiply() {
      const int lane = threadIdx.x % 32;
#pragma unroll 1
      for (int r = 0; r < 16; ++r) {
        const int from = __shfl_sync(0xffffffffu, first[r / 8], r % 8 * 4);
        const int to = __shfl_sync(0xffffffffu, end[r / 8], r % 8 * 4);
        const auto keep = [&](int i) { return i >= from && i < to ? 0xffffu : 0u; };
#pragma unroll 1
        for (int j = 0; j < kColumns; ++j) {
          float sum[4] = {o[j].x, o[j].y, o[j].z, o[j].w};
#pragma unroll 1
          for (int step = 0; step < kParts; ++step) {
            uint32_t b[4];
            LoadMatricesTransposed(v + step * 16 * kRowBytes + j / 2 * 32, b);
            const int at = step * 16 + lane % 4 * 2;
            const uint32_t low = keep(at) | keep(at + 1) << 16;
            const uint32_t high = keep(at + 8) | keep(at + 9) << 16;
            MultiplyAdd<T>(sum, weights[step], (j % 2 == 0 ? b[0] : b[2]) & low,
                           (j % 2 == 0 ? b[1] : b[3]) & high);
          }
          if (lane / 4 == r % 8 && r < 8) o[j].x = sum[0], o[j].y = sum[1];
          if (lane / 4 == r % 8 && r >= 8) o[j].z = sum[2], o[j].w = sum[3];
        }
      }
    }
  };

  // What a thread knows of its two rows.
  struct Row {
    bool valid = false;
    int token = 0, head = 0;  // of the call
    Visible visible = {0, 0};
    RowState inner, outer;
  };

  const AttentionParams& p;
  Shared& shared;
  const Tile& tile;
  Visible all;
  int kv_head, warp, lane;
  int first_column;    // of the output, in eights
  float score_factor;  // that is left to be applied
  Row row[2];
  Visible warp_visible;  // positions that some row of the warp sees
  Visible warp_common;   // that all of them see
  float o[kColumns][4];
  float4 kept[kTogether ? kColumns : 1];  // of the splits before, as `outer` else
  uint32_t q[kKeepQ ? kSteps : 1][4];

  __device__ MmaAttention(const AttentionParams& params, Shared& memory, const Tile& item)
      : p(params),
        shared(memory),
        tile(item),
        kv_head(item.kv_head),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32),
        first_column(kTogether ? warp * kColumns : 0),
        score_factor(ScoresAreProducts(params) ? params.factor : 1.0f) {}

  __device__ void Run() {
    all = VisibleToRows(p, tile.at, tile.row, tile.rows);
    BlockWalk<kBlock> walk(tile, all);
    if (Rehearses()) walk.end = walk.begin + 1;
    if (walk.begin >= walk.end) return;
    StoreRow(0, LookUp(walk.begin));
    StoreRow(1, LookUp(walk.begin + 1));
    KvRow ahead = LookUp(walk.begin + 2);
    __syncthreads();
    Fetch(0, 0);
    CommitCopies();
    SetRows();
    LoadQ();
    ResetInner();
    for (int block = walk.begin; block < walk.end; ++block) {
      const int i = block - walk.begin, stage = i % kStages;
      if (block + 1 < walk.end) Fetch((i + 1) % kStages, (i + 1) % kRing);
      CommitCopies();
      StoreRow((i + 2) % kRing, ahead);
      ahead = LookUp(block + 3);  // has the time of a block to arrive
      WaitCopies<1>();
      __syncthreads();
      if constexpr (kCodes) {
        WidenTiles(stage);
        __syncthreads();
      }
      if ((block * kBlock < warp_visible.end && (block + 1) * kBlock > warp_visible.first) ||
          Rehearses())
        Attend(block, kCodes ? 0 : stage, stage);
      if (walk.EndsSplit(block)) EndSplit(block * kBlock / kSplitTokens);
      __syncthreads();
    }
  }

  // The tile has no rows, which see nothing: all code is gone through, and no memory of the device
  // is read or written.
  __device__ bool Rehearses() const { return kTogether && tile.rows == 0; }

  __device__ void SetRows() {
    warp_visible = warp_common = {0, 0};
    const int first = kTogether ? 0 : warp * 16;
    if (first < tile.rows) {
      const int last = tile.row + min(first + 16, tile.rows) - 1;
      const Visible top = VisibleAt(p, tile.at, tile.at.Position((tile.row + first) / p.group));
      const Visible bottom = VisibleAt(p, tile.at, tile.at.Position(last / p.group));
      warp_visible = {top.first, bottom.end};
      warp_common = {bottom.first, top.end};
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = first + lane / 4 + 8 * i;
      row[i] = Row();
      if (r >= tile.rows) continue;
      const int token = (tile.row + r) / p.group;
      row[i].valid = true;
      row[i].token = tile.at.first_token + token;
      row[i].head = kv_head * p.group + (tile.row + r) % p.group;
      row[i].visible = VisibleAt(p, tile.at, tile.at.Position(token));
    }
  }

  // Two neighbouring numbers of a query row as T.
  __device__ static uint32_t QPair(const uint32_t* from) {
    const uint32_t pair = *from;
    if constexpr (sizeof(T) == sizeof(Activation) && std::is_same_v<T, Activation>) return pair;
    const Activation* two = reinterpret_cast<const Activation*>(&pair);
    return Pack<T>(ToFloat(two[0]), ToFloat(two[1]));
  }

  __device__ void LoadQ() {
    const int first = lane % 4 * 2;
    const uint32_t* from[2];
    int end[2];  // the columns that a row has, behind the thread's first
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t at = row[i].token * p.q_stride + int64_t{row[i].head} * p.head_dim + first;
      from[i] = reinterpret_cast<const uint32_t*>(static_cast<const Activation*>(p.q) + at);
      end[i] = row[i].valid ? p.head_dim - first : 0;
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      uint32_t part[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = step * 16 + j / 2 * 8;
        part[j] = column < end[j % 2] ? QPair(from[j % 2] + column / 2) : 0;
      }
      if constexpr (kKeepQ) {
#pragma unroll
        for (int j = 0; j < 4; ++j) q[step][j] = part[j];
      } else {
        shared.q[step * kThreads + threadIdx.x] = {part[0], part[1], part[2], part[3]};
      }
    }
  }

  __device__ KvRow LookUp(int block) const {
    const int i = threadIdx.x;
    return i < kBlock ? FindRow(p, tile.at, all, block * kBlock + i) : KvRow{-1, 0};
  }
  __device__ void StoreRow(int slot, const KvRow& row) {
    if (threadIdx.x >= kBlock) return;
    const KvRow at = Checked(p, row);
    const int64_t bytes = kCodes ? 1 : 2, inside = int64_t{kv_head} * p.block_tokens + at.offset;
    const Place nowhere = {-1, -1};
    const Place place = {(at.block * p.k_stride + inside * p.head_dim) * bytes,
                         (at.block * p.v_stride + inside * p.head_dim) * bytes};
    shared.places[slot][threadIdx.x] = at.block >= 0 ? place : nowhere;
    if constexpr (kCodes) {
      const Place scales = {at.block * p.k_scale_stride + inside,
                            at.block * p.v_scale_stride + inside};
      shared.scale_places[slot][threadIdx.x] = at.block >= 0 ? scales : nowhere;
    }
  }

  // Calls visit(position, chunk) for the thread's part of a block.
  template <class Visit>
  __device__ static void ForChunks(const Visit& visit) {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 4
    for (int step = 0; step < kBlock * kChunks / kThreads; ++step) {
      if constexpr (kThreads % kChunks == 0) {
        visit(thread / kChunks + step * (kThreads / kChunks), thread % kChunks);
      } else {
        const int c = thread + step * kThreads;
        visit(c / kChunks, c % kChunks);
      }
    }
  }

  // Begins to copy a block of K and V. Positions that nobody sees become zeros.
  __device__ void Fetch(int stage, int slot) {
    constexpr int kUnit = kCodes ? 8 : 16;  // bytes of a chunk
    const char* const k = static_cast<const char*>(p.k);
    const char* const v = static_cast<const char*>(p.v);
    char* const to_k = kCodes ? shared.codes[stage][0] : shared.kv[stage % kTiles][0];
    char* const to_v = kCodes ? shared.codes[stage][1] : shared.kv[stage % kTiles][1];
    ForChunks([&](int i, int chunk) {
      const Place at = shared.places[slot][i];
      const bool take = at.k >= 0 && chunk * 8 < p.head_dim;
      const int to = i * (kCodes ? kDim : kRowBytes) + chunk * kUnit, from = chunk * kUnit;
      CopyAsync<kUnit>(SharedAddress(to_k + to), k + (take ? at.k + from : 0), take);
      CopyAsync<kUnit>(SharedAddress(to_v + to), v + (take ? at.v + from : 0), take);
    });
    if constexpr (kCodes) {
      const int i = threadIdx.x;
      if (i >= kBlock) return;
      const Place at = shared.scale_places[slot][i];
      const bool take = at.k >= 0;
      CopyAsync<4>(SharedAddress(&shared.scales[stage][0][i]), p.k_scale + (take ? at.k : 0), take);
      CopyAsync<4>(SharedAddress(&shared.scales[stage][1][i]), p.v_scale + (take ? at.v : 0), take);
    }
  }

  __device__ void WidenTiles(int stage) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      ForChunks([&](int i, int chunk) {
        const uint2 codes =
            *reinterpret_cast<const uint2*>(shared.codes[stage][which] + i * kDim + chunk * 8);
        *reinterpret_cast<uint4*>(shared.kv[0][which] + i * kRowBytes + chunk * 16) =
            Widen<kForm>(codes);
      });
    }
  }

  __device__ void ResetInner() {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[j][i] = 0.0f;
    }
    row[0].inner = row[1].inner = {-INFINITY, 0.0f};
  }

  // Scores of the warp's rows with kCount parts of a block from `part` on: s[j][i] is of row i / 2
  // and position 16 part + 8 j + lane % 4 * 2 + i % 2.
  template <int kCount>
  __device__ void MultiplyK(int buffer, int part, float (&s)[2 * kCount][4]) {
    const uint32_t k = SharedAddress(shared.kv[buffer][0]) +
                       (part * 16 + lane % 8 + lane / 16 * 8) * kRowBytes + (lane / 8 % 2) * 16;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      uint32_t a[4];
      if constexpr (kKeepQ) {
#pragma unroll
        for (int j = 0; j < 4; ++j) a[j] = q[step][j];
      } else {
        const uint4 four = shared.q[step * kThreads + threadIdx.x];
        a[0] = four.x, a[1] = four.y, a[2] = four.z, a[3] = four.w;
      }
      uint32_t b[kCount][4];
#pragma unroll
      for (int j = 0; j < kCount; ++j) LoadMatrices(k + j * 16 * kRowBytes + step * 32, b[j]);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        MultiplyAdd<T>(s[2 * j], a, b[j][0], b[j][1]);
        MultiplyAdd<T>(s[2 * j + 1], a, b[j][2], b[j][3]);
      }
    }
  }

  // Takes out the positions that a row does not see; `first`: that of s[0][0].
  template <int kEights>
  __device__ void Hide(int first, float (&s)[kEights][4]) const {
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = first + 8 * j + i % 2;
        const Visible& sees = row[i / 2].visible;
        if (position < sees.first || position >= sees.end) s[j][i] = -INFINITY;
      }
    }
  }

  // Scores times log2 e over `score_factor` of kCount parts of a block from `part` on, and each
  // row's largest score times log2 e.
  template <int kCount>
  __device__ void Score(int block, int buffer, int stage, int part, float (&s)[2 * kCount][4],
                        float (&largest)[2]) {
#pragma unroll
    for (int j = 0; j < 2 * kCount; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[j][i] = 0.0f;
    }
    MultiplyK<kCount>(buffer, part, s);
    const int first = part * 16 + lane % 4 * 2;
    if constexpr (kCodes) {
#pragma unroll
      for (int j = 0; j < 2 * kCount; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[j][i] *= shared.scales[stage][0][first + 8 * j + i % 2];
      }
    }
    if (!ScoresAreProducts(p)) MakeScores(p, s);
    if (block * kBlock < warp_common.first || (block + 1) * kBlock > warp_common.end)
      Hide(block * kBlock + first, s);
    largest[0] = largest[1] = -INFINITY;
#pragma unroll
    for (int j = 0; j < 2 * kCount; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) largest[i / 2] = fmaxf(largest[i / 2], s[j][i]);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 1));
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 2)) * score_factor;
    }
  }

  // Weights of one part from its scores, as the left factors of its products with V, and the lane's
  // share of their sums.
  __device__ void Weigh(int stage, int part, const float (&base)[2], float (&low)[4],
                        float (&high)[4], uint32_t (&a)[4], float (&sums)[2]) const {
    sums[0] = sums[1] = 0.0f;
    const auto weigh = [&](float(&s)[4], int first) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool hidden = s[i] == -INFINITY;
        s[i] = PowerOfTwo(__fmaf_rn(s[i], score_factor, -base[i / 2]));
        sums[i / 2] = __fadd_rn(sums[i / 2], s[i]);
        if constexpr (kCodes)
          s[i] = hidden ? 0.0f : s[i] * shared.scales[stage][1][first + lane % 4 * 2 + i % 2];
      }
    };
    weigh(low, part * 16);
    weigh(high, part * 16 + 8);
    a[0] = Pack<T>(low[0], low[1]);
    a[1] = Pack<T>(low[2], low[3]);
    a[2] = Pack<T>(high[0], high[1]);
    a[3] = Pack<T>(high[2], high[3]);
  }

  // What a block's largest scores make of the rows' bases; what was summed so far is scaled to
  // them.
  __device__ void Rescale(const float (&largest)[2], float (&base)[2]) {
    float growth[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) growth[i] = Grow(&row[i].inner, largest[i], &base[i]);
    if (!__any_sync(0xffffffffu, growth[0] != 1.0f || growth[1] != 1.0f)) return;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[j][i] = __fmul_rn(o[j][i], growth[i / 2]);
    }
  }

  __device__ void Attend(int block, int buffer, int stage) {
    const bool finite = SeesAlike(block) || IsFinite(block, buffer);
    SeenV seen;
    const auto add = [&](int part, const float(&sums)[2], const uint32_t(&a)[4]) {
#pragma unroll
      for (int i = 0; i < 2; ++i) row[i].inner.sum = __fadd_rn(row[i].inner.sum, sums[i]);
      if (finite) return MultiplyV(buffer, part, a);
#pragma unroll
      for (int i = 0; i < 4; ++i) seen.weights[part][i] = a[i];
    };
    float base[2], largest[2], sums[2];
    uint32_t a[4];
    if constexpr (kTogether) {
      Exchange& exchange = *reinterpret_cast<Exchange*>(shared.outer);
      float s[2][4];
      const bool scores = warp < kParts;
      if (scores) {
        Score<1>(block, buffer, stage, warp, s, largest);
        if (lane % 4 == 0) {
          exchange.largest[warp][lane / 4] = largest[0];
          exchange.largest[warp][lane / 4 + 8] = largest[1];
        }
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        largest[i] = exchange.largest[0][lane / 4 + 8 * i];
#pragma unroll
        for (int part = 1; part < kParts; ++part)
          largest[i] = fmaxf(largest[i], exchange.largest[part][lane / 4 + 8 * i]);
      }
      Rescale(largest, base);
      if (scores) {
        Weigh(stage, warp, base, s[0], s[1], a, sums);
        exchange.weights[warp][lane] = {a[0], a[1], a[2], a[3]};
        exchange.sums[warp][0][lane] = sums[0];
        exchange.sums[warp][1][lane] = sums[1];
      }
      __syncthreads();
      uint4 weights[kParts];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        weights[part] = exchange.weights[part][lane];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          row[i].inner.sum = __fadd_rn(row[i].inner.sum, exchange.sums[part][i][lane]);
      }
      const auto unpack = [&weights](int part, uint32_t(&to)[4]) {
        to[0] = weights[part].x, to[1] = weights[part].y;
        to[2] = weights[part].z, to[3] = weights[part].w;
      };
      // One branch for all parts: what they read is asked for at once.
      if (finite) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          unpack(part, a);
          MultiplyV(buffer, part, a);
        }
        return;
      }
#pragma unroll
      for (int part = 0; part < kParts; ++part) unpack(part, seen.weights[part]);
    } else {
      float s[2 * kParts][4];
      Score<kParts>(block, buffer, stage, 0, s, largest);
      Rescale(largest, base);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        Weigh(stage, part, base, s[2 * part], s[2 * part + 1], a, sums);
        add(part, sums, a);
      }
    }
    if (!finite) MultiplySeenV(block, buffer, seen);
  }

  // Whether what is in shared memory of a block is seen by all rows of the warp.
  __device__ bool SeesAlike(int block) const {
    return max(all.first, block * kBlock) >= warp_common.first &&
           min(all.end, (block + 1) * kBlock) <= warp_common.end;
  }

  // Whether the V that some of the warp's rows don't see is finite, as codes always are.
  __device__ bool IsFinite(int block, int buffer) const {
    if constexpr (kCodes) return true;
    const int first = max(all.first - block * kBlock, 0);
    const int end = min(all.end - block * kBlock, kBlock);
    uint32_t bad = NotFinite(buffer, first, min(end, warp_common.first - block * kBlock));
    bad |= NotFinite(buffer, max(first, warp_common.end - block * kBlock), end);
    return __all_sync(0xffffffffu, bad == 0) != 0;
  }

  // Not zero where the thread's part of V of positions [first, end) of a block is not finite.
  __device__ uint32_t NotFinite(int buffer, int first, int end) const {
    using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    const Pair zero = {T(0.0f), T(0.0f)};
    Pair zeros = zero;
#pragma unroll 4
    for (int c = first * kChunks + lane; c < end * kChunks; c += 32) {
      const uint4 eight = *reinterpret_cast<const uint4*>(
          shared.kv[buffer][1] + c / kChunks * kRowBytes + c % kChunks * 16);
      const Pair* pairs = reinterpret_cast<const Pair*>(&eight);
#pragma unroll
      for (int i = 0; i < 4; ++i) zeros = __hfma2(pairs[i], zero, zeros);
    }
    return *reinterpret_cast<const uint32_t*>(&zeros) & 0x7fff7fffu;
  }

  // The V of a block's first positions and the warp's first columns, as a lane reads it.
  __device__ uint32_t AddressOfV(int buffer) const {
    return SharedAddress(shared.kv[buffer][1]) + (lane % 16) * kRowBytes + (lane / 16) * 16 +
           first_column * 16;
  }

  // Whether the warp has columns `pair` and `pair` + 1 of eights: with 96 columns the last has
  // none.
  __device__ bool HasPair(int pair) const {
    return kColumns * kWarps == kAllColumns || !kTogether || first_column + 2 * pair < kAllColumns;
  }

  __device__ void MultiplyV(int buffer, int part, const uint32_t (&a)[4]) {
    const uint32_t v = AddressOfV(buffer) + part * 16 * kRowBytes;
#pragma unroll
    for (int begin = 0; begin < kColumns / 2; begin += kAhead) {
      if (!HasPair(begin)) break;
      uint32_t b[kAhead][4];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) LoadMatricesTransposed(v + (begin + j) * 32, b[j]);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        MultiplyAdd<T>(o[2 * (begin + j)], a, b[j][0], b[j][1]);
        MultiplyAdd<T>(o[2 * (begin + j) + 1], a, b[j][2], b[j][3]);
      }
    }
  }

  // MultiplyV of all parts where V has a NaN or an infinity that not all of the rows see: 0 * NaN
  // is no 0. Rare, so what it needs is in memory and takes no registers from MultiplyV.
  __device__ void MultiplySeenV(int block, int buffer, SeenV& seen) {
    if (!HasPair(0)) return;
    seen.v = AddressOfV(buffer);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      seen.first[i] = row[i].visible.first - block * kBlock;
      seen.end[i] = row[i].visible.end - block * kBlock;
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) seen.o[j] = {o[j][0], o[j][1], o[j][2], o[j][3]};
    seen.Multiply();
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      o[j][0] = seen.o[j].x, o[j][1] = seen.o[j].y, o[j][2] = seen.o[j].z, o[j][3] = seen.o[j].w;
    }
  }

  __device__ float4& Outer(int j) {
    if constexpr (kTogether) return kept[j];
    return shared.outer[j * kThreads + threadIdx.x];
  }

  // The split that ends has all that it gives to the rows: what they see of it goes on.
  __device__ void EndSplit(int split) {
    float2 join[2];
    bool joins[2] = {false, false}, keeps[2] = {false, false};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      row[i].inner.sum += __shfl_xor_sync(0xffffffffu, row[i].inner.sum, 1);
      row[i].inner.sum += __shfl_xor_sync(0xffffffffu, row[i].inner.sum, 2);
      if (!row[i].valid) continue;
      const int from = row[i].visible.first_split(), to = row[i].visible.last_split();
      if (split < from || split > to) continue;
      if (from == to) {
        Finish(i, row[i].inner);
      } else if (tile.split()) {
        StorePartial(i, split);
      } else if (split == from) {
        keeps[i] = true;
        row[i].outer = row[i].inner;
      } else {
        joins[i] = true;
        join[i] = Join(&row[i].outer, row[i].inner);
      }
    }
    if (!tile.split()) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (!(joins[0] || joins[1] || keeps[0] || keeps[1])) break;
        float4 outer = Outer(j);
        float* values = &outer.x;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (keeps[i / 2]) values[i] = o[j][i];
          if (joins[i / 2]) values[i] = Joined(values[i], o[j][i], join[i / 2]);
          o[j][i] = values[i];
        }
        Outer(j) = outer;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (joins[i] && split == row[i].visible.last_split()) Finish(i, row[i].outer);
      }
    }
    ResetInner();
  }

  __device__ void Finish(int i, const RowState& state) {
    const float factor = OverWeights(p, row[i].head, state);
    Activation* to = static_cast<Activation*>(p.out) + row[i].token * p.out_stride +
                     int64_t{row[i].head} * p.head_dim + 8 * first_column + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      if (8 * (first_column + j) >= p.head_dim) continue;
      *reinterpret_cast<uint32_t*>(to + 8 * j) =
          Pack<Activation>(o[j][2 * i] * factor, o[j][2 * i + 1] * factor);
    }
  }

  __device__ void StorePartial(int i, int split) {
    const int64_t at = PartialRow(p, tile.slot, row[i].token - tile.at.first_token, tile.splits,
                                  split - tile.first_split, row[i].head);
    if (lane % 4 == 0 && first_column == 0)
      reinterpret_cast<float2*>(p.partial_state)[at] = {row[i].inner.largest, row[i].inner.sum};
    float* to = p.partial + at * p.head_dim + 8 * first_column + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      if (8 * (first_column + j) >= p.head_dim) continue;
      *reinterpret_cast<float2*>(to + 8 * j) = {o[j][2 * i], o[j][2 * i + 1]};
    }
  }
};

template <class T, class Activation, KvForm kForm, int kDim>
__device__ void RunMmaAttention(const AttentionParams& p) {
  // With heads of 256 both forms in one kernel cost prefill more registers than decode gains.
  constexpr bool kTogether = kDim <= 128;
  using Together = MmaAttention<T, Activation, kForm, kDim, kTogether>;
  using Apart = MmaAttention<T, Activation, kForm, kDim, false>;
  extern __shared__ __align__(16) char memory[];
  __shared__ Worklist::Shared items;
  Worklist work(items);
  // Code comes from the device's memory: weights have passed through its cache since the layer
  // before. So each thread block goes through the form of decode once while the kernel in front of
  // it still runs.
  const auto begin = [&] {
    WaitForInputs();
    work.Begin(p);
  };
  bool rehearses = kTogether;
  if (!kTogether) begin();
  while (const Tile* const tile = rehearses ? work.WithoutRows() : work.Next(p)) {
    if (kTogether && tile->rows <= Together::kRows) {
      Together(p, *reinterpret_cast<typename Together::Shared*>(memory), *tile).Run();
    } else {
      Apart(p, *reinterpret_cast<typename Apart::Shared*>(memory), *tile).Run();
    }
    if (rehearses) begin();
    rehearses = false;
  }
}

}  // namespace sluice::cuda

// Defines kernel `name` for one size of heads.
#define SLUICE_MMA_ATTENTION(name, T, Activation, form, dim)                 \
  extern "C" __global__ void __launch_bounds__(128, dim <= 128 ? 2 : 1)      \
      name(const __grid_constant__ sluice::cuda::AttentionParams params) {   \
    using sluice::cuda::KvForm;                                              \
    sluice::cuda::RunMmaAttention<T, Activation, KvForm::form, dim>(params); \
  }

// Kernels `name`_64 and so on, one for each size of heads.
#define SLUICE_MMA_ATTENTION_SIZES(name, T, Activation, form) \
  SLUICE_MMA_ATTENTION(name##_64, T, Activation, form, 64)    \
  SLUICE_MMA_ATTENTION(name##_96, T, Activation, form, 96)    \
  SLUICE_MMA_ATTENTION(name##_128, T, Activation, form, 128)  \
  SLUICE_MMA_ATTENTION(name##_256, T, Activation, form, 256)
