// The warpgroups that multiply in the latent attention kernel (mla_attention.cuh).
#pragma once

#include "backend/cuda/attention/mla_shared.cuh"
#include "backend/cuda/simt/warpgroup_16bit.cuh"

namespace sluice::cuda {

// What both have: half of the values of 64 rows. kHalf: which one.
template <class T, int kHalf>
struct MlaSums {
  static constexpr int kParts = kMlaBlock / 16, kWidth = 128;  // columns of a product

  const LatentParams& p;
  MlaShared& shared;
  const int thread = threadIdx.x % 128, row = thread / 32 * 16 + thread % 32 / 4;  // and row + 8
  float o[2][kWidth / 2];
  uint32_t weights[kParts][4];

  __device__ MlaSums(const LatentParams& params, MlaShared& memory) : p(params), shared(memory) {}

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) o[h][i] = 0.0f;
    }
  }
  __device__ __forceinline__ void Scale(const float (&by)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) o[h][i] = __fmul_rn(o[h][i], by[i / 2 % 2]);
    }
  }
  // o += weights * V of the slot, under way when this returns.
  __device__ __forceinline__ void MultiplyV(int slot) {
    constexpr int kChunk = sizeof(shared.k[0][0]);
    const uint64_t b = ColumnsOperand<kChunk>(
        __shfl_sync(0xffffffffu, SharedAddress(shared.k[slot][1 + 4 * kHalf]), 0));
    WarpgroupFence();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      AddColumns<T>(o[0], weights[part], Behind(b, part * 128));
      AddColumns<T>(o[1], weights[part], Behind(b, part * 128 + 2 * kChunk / 16));
    }
    WarpgroupCommit();
  }
  __device__ __forceinline__ void Pin() {
    PinSums(o[0]);
    PinSums(o[1]);
  }
  __device__ __forceinline__ void FreeSlot(int slot) {
    if (thread % 32 == 0) Arrive(SharedAddress(&shared.free[slot]));
  }

  // A split has ended: the sums join those of the splits before it, and go where they belong.
  __device__ __forceinline__ void EndSplit(const Tile& tile, const MlaWalk& walk, int split,
                                           const float2 (&join)[2], const float (&inverse)[2]) {
    const bool alone = walk.last_split == 0;
    if (!alone && tile.split()) return StorePartial(tile, walk, split);
    float* const kept = p.kept + (int64_t{blockIdx.x} * 2 + kHalf) * kMlaRows * 2 * kWidth + thread;
    if (!alone && split > 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i)
          o[h][i] = Joined(kept[(h * kWidth / 2 + i) * 128], o[h][i], join[i / 2 % 2]);
      }
    }
    if (split == walk.last_split) return Finish(tile, walk, inverse);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) kept[(h * kWidth / 2 + i) * 128] = o[h][i];
    }
  }

  __device__ __forceinline__ void Finish(const Tile& tile, const MlaWalk& walk,
                                         const float (&inverse)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = walk.head + row + 8 * i;
      if (head >= p.rows.q_heads) continue;
      T* const to = static_cast<T*>(p.rows.out) +
                    (tile.at.first_token + walk.token) * p.rows.out_stride +
                    int64_t{head} * p.value_width + kHalf * 2 * kWidth + thread % 4 * 2;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int j = 0; j < kWidth / 8; ++j) {
          *reinterpret_cast<uint32_t*>(to + h * kWidth + 8 * j) =
              Pack<T>(o[h][4 * j + 2 * i] * inverse[i], o[h][4 * j + 2 * i + 1] * inverse[i]);
        }
      }
    }
  }

  __device__ __forceinline__ void StorePartial(const Tile& tile, const MlaWalk& walk, int split) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = walk.head + row + 8 * i;
      if (head >= p.rows.q_heads) continue;
      const int64_t at =
          PartialRow(p.rows, tile.slot, walk.token, tile.splits, split - tile.first_split, head);
      float* const to = p.rows.partial + at * p.value_width + kHalf * 2 * kWidth + thread % 4 * 2;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int j = 0; j < kWidth / 8; ++j) {
          *reinterpret_cast<float2*>(to + h * kWidth + 8 * j) = {o[h][4 * j + 2 * i],
                                                                 o[h][4 * j + 2 * i + 1]};
        }
      }
    }
  }
};

// The warpgroup that makes scores and weights, too.
template <class T>
struct MlaScorer : MlaSums<T, 0> {
  using Base = MlaSums<T, 0>;
  using Base::o;
  using Base::p;
  using Base::row;
  using Base::shared;
  using Base::thread;
  using Base::weights;

  float s[kMlaBlock / 2];
  RowState inner[2], outer[2];
  MlaPlace place = {};
  uint32_t parity = 0;  // of the weights

  using Base::Base;

  __device__ __forceinline__ void Run(const Tile& tile) {
    const MlaWalk walk(p.rows, tile);
    if (walk.begin >= walk.end) return;
    LoadQ(tile, walk);
    inner[0] = inner[1] = {-INFINITY, 0.0f};
    Await(walk, walk.begin);
    MultiplyK();
    WarpgroupWait<0>();
    PinSums(s);
    Base::Clear();
    for (int block = walk.begin; block < walk.end; ++block) {
      if (walk.EndsSplit(block) || (block + 2) * kMlaBlock > walk.seen) {
        Step(tile, walk, block);
      } else {
        InnerStep(walk, block);
      }
    }
  }

  // A block within a split, behind which comes another that the token sees all of: the products of
  // the next block with Q run behind those of this one with V.
  __device__ __forceinline__ void InnerStep(const MlaWalk& walk, int block) {
    const MlaPlace at = place;
    place.Advance();
    float growth[2];
    Weigh(walk, block, growth);
    Hand(growth);
    Grown(growth);
    Base::MultiplyV(at.slot);
    WaitBarrier(SharedAddress(&shared.full[place.slot]), place.parity);
    MultiplyK();
    WarpgroupWait<1>();
    Base::Pin();
    Base::FreeSlot(at.slot);
    WarpgroupWait<0>();
    PinSums(s);
  }

  // Any block, one thing after the other.
  __device__ __forceinline__ void Step(const Tile& tile, const MlaWalk& walk, int block) {
    const bool ends = walk.EndsSplit(block);
    const int slot = place.slot;
    place.Advance();
    float growth[2], inverse[2] = {};
    float2 join[2] = {};
    Weigh(walk, block, growth);
    if (ends) JoinState(tile, walk, block / MlaWalk::kPerSplit, join, inverse);
    Hand(growth, join, inverse);
    Grown(growth);
    Base::MultiplyV(slot);
    WarpgroupWait<0>();
    Base::Pin();
    Base::FreeSlot(slot);
    if (ends) {
      Base::EndSplit(tile, walk, block / MlaWalk::kPerSplit, join, inverse);
      Base::Clear();
    }
    if (block + 1 >= walk.end) return;
    Await(walk, block + 1);
    MultiplyK();
    WarpgroupWait<0>();
    PinSums(s);
  }
  __device__ __forceinline__ void Grown(const float (&growth)[2]) {
    if (__any_sync(0xffffffffu, growth[0] != 1.0f || growth[1] != 1.0f)) Base::Scale(growth);
  }

  // Rows of heads that there are not become zeros.
  __device__ __forceinline__ void LoadQ(const Tile& tile, const MlaWalk& walk) {
    const uint16_t* const from = static_cast<const uint16_t*>(p.rows.q) +
                                 (tile.at.first_token + walk.token) * p.rows.q_stride +
                                 int64_t{walk.head} * kLatentKeyMax;
#pragma unroll 4
    for (int i = thread; i < kMlaRows * kMlaChunks * 8; i += 128) {
      const int r = i / (kMlaChunks * 8), c = i % (kMlaChunks * 8);
      const bool take = walk.head + r < p.rows.q_heads;
      CopyAsync<16>(SharedAddress(&shared.q[c / 8][r][(c % 8 ^ r % 8) * 16]),
                    from + (take ? r * kLatentKeyMax + c * 8 : 0), take);
    }
    CommitCopies();
    WaitCopies<0>();
    PublishToMatrices();
    SyncSome(1, 128);
  }

  // Until the block that comes next is there. What the token does not see of it may be anything,
  // and becomes zero.
  __device__ __forceinline__ void Await(const MlaWalk& walk, int block) {
    WaitBarrier(SharedAddress(&shared.full[place.slot]), place.parity);
    const int seen = walk.seen - block * kMlaBlock;
    if (seen < kMlaBlock) {
      for (int i = thread; i < (kMlaBlock - seen) * kMlaChunks * 8; i += 128) {
        const int chunk = i / 8 % kMlaChunks, position = seen + i / (8 * kMlaChunks);
        StoreShared(SharedAddress(&shared.k[place.slot][chunk][position][i % 8 * 16]),
                    uint4{0, 0, 0, 0});
      }
      PublishToMatrices();
      SyncSome(1, 128);
    }
  }

  // Products with the block that comes next, under way when this returns.
  __device__ __forceinline__ void MultiplyK() {
    constexpr int kChunk = sizeof(shared.k[0][0]) / 16;
    const uint64_t a = SwizzledOperand(__shfl_sync(0xffffffffu, SharedAddress(shared.q[0]), 0));
    const uint64_t b =
        SwizzledOperand(__shfl_sync(0xffffffffu, SharedAddress(shared.k[place.slot][0]), 0));
    WarpgroupFence();
#pragma unroll
    for (int step = 0; step < kLatentKeyMax / 16; ++step) {
      const int at = step / 4 * kChunk + step % 4 * 2;
      if (step == 0) {
        BeginRows<T>(s, a, b);
      } else {
        AddRows<T>(s, Behind(a, at), Behind(b, at));
      }
    }
    WarpgroupCommit();
  }

  // Makes weights of products, and the rows' new states.
  __device__ __forceinline__ void Weigh(const MlaWalk& walk, int block, float (&growth)[2]) {
    const float factor = p.rows.factor;
    const int first = block * kMlaBlock + thread % 4 * 2;
    if ((block + 1) * kMlaBlock > walk.seen) {
#pragma unroll
      for (int i = 0; i < kMlaBlock / 2; ++i) {
        if (first + i / 4 * 8 + i % 2 >= walk.seen) s[i] = -INFINITY;
      }
    }
    float base[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float most = -INFINITY;
#pragma unroll
      for (int j = 0; j < kMlaBlock / 8; ++j)
        most = fmaxf(most, fmaxf(s[4 * j + 2 * i], s[4 * j + 2 * i + 1]));
#pragma unroll
      for (int other = 1; other < 4; other *= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, other));
      growth[i] = Grow(&inner[i], most * factor, &base[i]);
    }
#pragma unroll
    for (int part = 0; part < Base::kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& x = s[8 * part + 4 * (j / 2) + 2 * i + j % 2];
          x = PowerOfTwo(__fmaf_rn(x, factor, -base[i]));
          sum = j == 0 ? x : __fadd_rn(sum, x);
        }
        inner[i].sum = __fadd_rn(inner[i].sum, sum);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
        weights[part][i] = Pack<T>(s[8 * part + 2 * i], s[8 * part + 2 * i + 1]);
    }
  }

  // The states of the split that ends join those before it, and begin anew.
  __device__ __forceinline__ void JoinState(const Tile& tile, const MlaWalk& walk, int split,
                                            float2 (&join)[2], float (&inverse)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int other = 1; other < 4; other *= 2)
        inner[i].sum += __shfl_xor_sync(0xffffffffu, inner[i].sum, other);
      join[i] = {0.0f, 1.0f};
      if (split == 0) {
        outer[i] = inner[i];
      } else if (!tile.split()) {
        join[i] = Join(&outer[i], inner[i]);
      }
      inverse[i] = 1.0f / outer[i].sum;
      if (tile.split() && walk.last_split > 0) StoreState(tile, walk, split, i);
      inner[i] = {-INFINITY, 0.0f};
    }
  }
  __device__ __forceinline__ void StoreState(const Tile& tile, const MlaWalk& walk, int split,
                                             int i) {
    const int head = walk.head + row + 8 * i;
    if (head >= p.rows.q_heads || thread % 4 >= p.parts) return;
    const int64_t at =
        PartialRow(p.rows, tile.slot, walk.token, tile.splits, split - tile.first_split, head);
    reinterpret_cast<float2*>(p.rows.partial_state)[at * p.parts + thread % 4] = {inner[i].largest,
                                                                                  inner[i].sum};
  }

  // Gives the other warpgroup what it needs for the block; the second form where a split ends.
  __device__ __forceinline__ void Hand(const float (&growth)[2]) {
    WaitBarrier(SharedAddress(&shared.weights_free), parity ^ 1);
    PutWeights(growth);
    Arrive(SharedAddress(&shared.weights_full));
  }
  __device__ __forceinline__ void Hand(const float (&growth)[2], const float2 (&join)[2],
                                       const float (&inverse)[2]) {
    WaitBarrier(SharedAddress(&shared.weights_free), parity ^ 1);
    PutWeights(growth);
    if (thread % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        shared.join[row + 8 * i] = join[i];
        shared.inverse[row + 8 * i] = inverse[i];
      }
    }
    Arrive(SharedAddress(&shared.weights_full));
  }
  __device__ __forceinline__ void PutWeights(const float (&growth)[2]) {
    parity ^= 1;
#pragma unroll
    for (int part = 0; part < Base::kParts; ++part) {
      shared.weights[part][thread] = {weights[part][0], weights[part][1], weights[part][2],
                                      weights[part][3]};
    }
    if (thread % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) shared.growth[row + 8 * i] = growth[i];
    }
  }
};

// The warpgroup that sums the other half of the values.
template <class T>
struct MlaFollower : MlaSums<T, 1> {
  using Base = MlaSums<T, 1>;
  using Base::o;
  using Base::p;
  using Base::row;
  using Base::shared;
  using Base::thread;
  using Base::weights;

  MlaPlace place = {};
  uint32_t parity = 0;  // of the weights

  using Base::Base;

  __device__ __forceinline__ void Run(const Tile& tile) {
    const MlaWalk walk(p.rows, tile);
    if (walk.begin >= walk.end) return;
    Base::Clear();
    for (int block = walk.begin; block < walk.end; ++block, place.Advance()) {
      const bool ends = walk.EndsSplit(block);
      WaitBarrier(SharedAddress(&shared.weights_full), parity);
      WaitBarrier(SharedAddress(&shared.full[place.slot]), place.parity);
      parity ^= 1;
      float growth[2], inverse[2] = {};
      float2 join[2] = {};
#pragma unroll
      for (int part = 0; part < Base::kParts; ++part) {
        const uint4 four = shared.weights[part][thread];
        weights[part][0] = four.x;
        weights[part][1] = four.y;
        weights[part][2] = four.z;
        weights[part][3] = four.w;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        growth[i] = shared.growth[row + 8 * i];
        if (ends) join[i] = shared.join[row + 8 * i];
        if (ends) inverse[i] = shared.inverse[row + 8 * i];
      }
      Arrive(SharedAddress(&shared.weights_free));
      if (__any_sync(0xffffffffu, growth[0] != 1.0f || growth[1] != 1.0f)) Base::Scale(growth);
      Base::MultiplyV(place.slot);
      WarpgroupWait<0>();
      Base::Pin();
      Base::FreeSlot(place.slot);
      if (!ends) continue;
      Base::EndSplit(tile, walk, block / MlaWalk::kPerSplit, join, inverse);
      Base::Clear();
    }
  }
};

}  // namespace sluice::cuda
