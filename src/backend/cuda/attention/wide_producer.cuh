// What fills shared memory of the wide attention kernel (wide_attention.cuh): blocks of K and V by
// the copy engine, Q by copies of threads.
#pragma once

#include "backend/cuda/attention/kv_maps.h"
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

// Stage i of the rings has the i-th block of a split, so that what reads a whole split knows all
// its addresses when it is compiled.
inline constexpr int kWideStages = kSplitTokens / kWideBlock;

// Where shared memory begins that a launch asks for, behind what the system has: kernels that have
// no other see it there, and know addresses when they are compiled.
inline constexpr uint32_t kWideBase = 1024;

template <int kDim>
struct WideShared {
  static constexpr int kHalves = WideHalves(kDim);
  char q[2][kHalves][kWideRows][128];
  char k[kWideStages][kHalves][kWideBlock][128];
  char v[kWideStages][kHalves][kWideBlock][128];
  uint64_t k_full[kWideStages], k_free[kWideStages], v_full[kWideStages], v_free[kWideStages];
  uint64_t q_full[2], q_free[2], tile_full[2];
  Tile tiles[2];  // of Q's slots; without rows: there are no more
};

// One of Q's slots and the parity of the phase that is awaited there.
struct QPlace {
  int slot = 0;
  uint32_t parity = 0;

  __device__ void Advance() {
    slot ^= 1;
    if (slot == 0) parity ^= 1;
  }
};

// A tile's blocks, made up to whole splits: what lies outside `walk` passes through the rings
// without bytes.
struct WideRounds {
  BlockWalk<kWideBlock> walk;
  int begin, end;

  __device__ WideRounds(const Tile& tile, const Visible& all) : walk(tile, all) {
    begin = walk.begin / kWideStages * kWideStages;
    end = walk.end > walk.begin ? (walk.end + kWideStages - 1) / kWideStages * kWideStages : begin;
  }
};

// The warps that fill shared memory: the first brings K, the second V, the third takes items and
// brings their Q, as soon as there is a slot. A warp issues copies one lane after the other, so one
// alone would be too slow.
template <int kDim>
struct WideProducer {
  using Shared = WideShared<kDim>;
  static constexpr int kChunks = kDim / 8;  // of sixteen bytes, in a row

  const AttentionParams& p;
  const KvMaps& maps;
  Shared& shared;
  const int lane = threadIdx.x % 32;
  uint32_t parity = 0;  // of the ring's round, one for each split

  __device__ void Run() {
    const int warp = threadIdx.x / 32 % 4;
    if (warp == 0) BringKv(shared.k, maps.k, shared.k_free, shared.k_full);
    if (warp == 1) BringKv(shared.v, maps.v, shared.v_free, shared.v_full);
    if (warp == 2) TakeItems();
  }

  __device__ void TakeItems() {
    const StepPlan plan = PlanOf(p.plan);
    const int end = plan.head[kWideItems], piece = plan.head[kPieceSplits];
    int item = static_cast<int>(blockIdx.x);
    for (QPlace place;; place.Advance()) {
      const uint32_t full = SharedAddress(&shared.q_full[place.slot]);
      WaitBarrier(SharedAddress(&shared.q_free[place.slot]), place.parity ^ 1);
      const bool more = item < end;
      const int ticket = more && lane == 0 ? TakeTicket(p) : 0;
      Tile tile = {};
      if (more) {
        const auto begins = [&](int entry) { return int64_t{plan.entries[entry].item}; };
        const int entry = LastAtMost(plan.head[kEntries], item, begins);
        tile = ItemAt(p, piece, plan.entries[entry], item);
      }
      if (lane == 0) {
        shared.tiles[place.slot] = tile;
        Arrive(SharedAddress(&shared.tile_full[place.slot]));
      }
      if (more) LoadQ(tile, place.slot);
      ArriveWhenCopied(full);
      // What lane 0 wrote of the tile is behind its own arrival.
      Arrive(full);
      if (!more) {
        if (lane == 0) LeaveWork(p);
        return;
      }
      item = __shfl_sync(0xffffffffu, ticket, 0);
    }
  }

  // Rows and columns that there are not become zeros. Each lane finds the place of every 32nd row.
  __device__ void LoadQ(const Tile& tile, int slot) {
    const uint16_t* const q = static_cast<const uint16_t*>(p.q) + tile.at.first_token * p.q_stride +
                              int64_t{tile.kv_head} * p.group * p.head_dim;
#pragma unroll 1
    for (int first = 0; first < kWideRows; first += 32) {
      const int row = tile.row + first + lane, token = row / p.group;
      const int64_t mine = token * p.q_stride + int64_t{row - token * p.group} * p.head_dim;
#pragma unroll 4
      for (int i = lane; i < 32 * kChunks; i += 32) {
        const int r = i / kChunks, chunk = i % kChunks;
        const int64_t at = __shfl_sync(0xffffffffu, mine, r) + chunk * 8;
        const bool take = first + r < tile.rows && chunk * 8 < p.head_dim;
        CopyAsync<16>(
            SharedAddress(&shared.q[slot][chunk / 8][first + r][(chunk % 8 ^ r % 8) * 16]),
            q + (take ? at : 0), take);
      }
    }
  }

  __device__ void BringKv(char (&ring)[kWideStages][Shared::kHalves][64][128], const TensorMap& map,
                          uint64_t* free, uint64_t* full) {
    for (QPlace place;; place.Advance()) {
      WaitBarrier(SharedAddress(&shared.tile_full[place.slot]), place.parity);
      const Tile& tile = shared.tiles[place.slot];
      if (tile.rows == 0) return;
      LoadKv(tile, ring, map, free, full);
      __syncwarp();
      if (lane == 0) Arrive(SharedAddress(&shared.q_free[place.slot]));
    }
  }

  // Each lane brings a page's positions of a block, or all of them, in one half of the columns.
  __device__ void LoadKv(const Tile& tile, char (&ring)[kWideStages][Shared::kHalves][64][128],
                         const TensorMap& map, uint64_t* free, uint64_t* full) {
    const Visible all = VisibleToRows(p, tile.at, tile.row, tile.rows);
    const WideRounds rounds(tile, all);
    const int box = min(p.block_tokens, kWideBlock), pages = kWideBlock / box;
    const int half = lane / pages, row = lane % pages * box, kv_head = tile.kv_head;
    const int32_t* table = p.block_table + tile.at.index * p.table_stride;
    // What the block table has, whatever it is: nothing waits for it yet.
    const auto find = [&](int block) {
      const int position = block * kWideBlock + row;
      const bool seen = half < Shared::kHalves && block < rounds.walk.end && position < all.end &&
                        position + box > all.first;
      return seen ? table[position / p.block_tokens] : -1;
    };
    int next[2] = {find(rounds.begin), find(rounds.begin + 1)};
    for (int block = rounds.begin; block < rounds.end; ++block) {
      const int found = next[0], stage = block % kWideStages;
      next[0] = next[1];
      next[1] = find(block + 2);
      const bool needed = block >= rounds.walk.begin && block < rounds.walk.end;
      const uint32_t arrived = SharedAddress(&full[stage]);
      WaitBarrier(SharedAddress(&free[stage]), parity ^ 1);
      if (stage == kWideStages - 1) parity ^= 1;
      if (lane == 0) ArriveExpecting(arrived, needed ? sizeof(ring[0]) : 0);
      __syncwarp();
      if (half >= Shared::kHalves || !needed) continue;
      // The first block behind the tensor: zeros.
      const int id = found >= 0 && found < p.kernel_blocks ? found : p.kernel_blocks;
      const int offset = (block * kWideBlock + row) % p.block_tokens;
      CopyBox(SharedAddress(ring[stage][half][row]), &map, half * 64, offset, kv_head, id, arrived);
    }
  }
};

}  // namespace sluice::cuda
