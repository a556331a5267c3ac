// Latent attention on warpgroup products (sm_90a), for rows of 576 numbers whose last 512 are their
// value. A thread block has 64 heads of one query token, and one warpgroup of it brings blocks of
// 64 positions by the copy engine into two slots of shared memory. The second (mla_consumer.cuh)
// makes scores and weights and sums the first half of the values; the third gets the weights from
// it and sums the other half, while the second is busy with the next block.
//
// A row's order: products along the row ascending, blocks of 64 positions ascending, each split of
// kMlaSplit positions from zero, splits joined in ascending order. Nothing of it depends on who
// computes which split.
#pragma once

#include "backend/cuda/attention/kv_maps.h"
#include "backend/cuda/attention/latent_params.h"
#include "backend/cuda/attention/listed.cuh"
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

inline constexpr int kMlaChunks = kLatentKeyMax / 64;  // of 64 columns: rows of 128 bytes

struct MlaShared {
  char q[kMlaChunks][kMlaRows][128];
  char k[kMlaSlots][kMlaChunks][kMlaBlock][128];
  uint4 weights[4][128];    // as each thread's operand of a product has them
  float growth[kMlaRows];   // what a row's sums are multiplied by before the block
  float2 join[kMlaRows];    // behind a split: the factors of what was there and of what comes
  float inverse[kMlaRows];  // behind the last split: one over the row's weights
  uint64_t full[kMlaSlots], free[kMlaSlots];
  uint64_t weights_full, weights_free;
  Worklist::Shared items;
};
static_assert(sizeof(MlaShared) <= kMlaSharedBytes);

// The blocks [begin, end) of an item, and what its token sees.
struct MlaWalk {
  static constexpr int kPerSplit = kMlaSplit / kMlaBlock;
  int token, head;  // of the sequence; of the tile's first row
  int seen;         // positions
  int begin, end;
  int last_split;  // that the token sees

  __device__ MlaWalk(const AttentionParams& p, const Tile& tile)
      : token(tile.row / p.group), head(tile.row % p.group) {
    seen = VisibleAt(p, tile.at, tile.at.Position(token)).end;
    begin = tile.piece_begin * kPerSplit;
    end = min((seen + kMlaBlock - 1) / kMlaBlock, tile.piece_end * kPerSplit);
    last_split = (seen - 1) / kMlaSplit;
  }
  __device__ bool EndsSplit(int block) const {
    return (block + 1) % kPerSplit == 0 || block + 1 >= end;
  }
};

// A slot of the ring and the parity of its phase, for the n-th block of a thread block.
struct MlaPlace {
  int slot = 0;
  uint32_t parity = 0;

  __device__ void Advance() {
    if (++slot < kMlaSlots) return;
    slot = 0;
    parity ^= 1;
  }
};

// The warp that brings positions: lanes take the boxes of a block in turn, 64 columns of a page.
struct MlaProducer {
  const AttentionParams& p;
  const TensorMap& map;
  MlaShared& shared;
  MlaPlace place = {};

  __device__ void Bring(const Tile& tile) {
    const MlaWalk walk(p, tile);
    const int lane = threadIdx.x % 32;
    const int rows = min(p.block_tokens, kMlaBlock), pages = kMlaBlock / rows;
    const int32_t* const table = p.block_table + tile.at.index * p.table_stride;
    for (int block = walk.begin; block < walk.end; ++block, place.Advance()) {
      const uint32_t full = SharedAddress(&shared.full[place.slot]);
      WaitBarrier(SharedAddress(&shared.free[place.slot]), place.parity ^ 1);
      if (lane == 0) ArriveExpecting(full, sizeof(shared.k[0]));
      __syncwarp();
      for (int i = lane; i < pages * kMlaChunks; i += 32) {
        const int row = i % pages * rows, chunk = i / pages;
        const int position = block * kMlaBlock + row;
        const int id = position < walk.seen ? table[position / p.block_tokens] : -1;
        // The first block behind the tensor: zeros.
        const int there = id >= 0 && id < p.kernel_blocks ? id : p.kernel_blocks;
        CopyBox(SharedAddress(shared.k[place.slot][chunk][row]), &map, chunk * 64,
                position % p.block_tokens, 0, there, full);
      }
    }
  }
};

// All threads of the warpgroup that brings positions, where they are listed or of a row aside:
// eight of them have a row of each sixteen of a block, and its 64 columns at a time.
struct MlaGatherer {
  static constexpr int kRowStep = 128 / 8, kRows = kMlaBlock / kRowStep;

  const LatentParams& p;
  MlaShared& shared;
  MlaPlace place = {};

  __device__ void Find(const Tile& tile, const MlaWalk& walk, int block, KvRow (&rows)[kRows]) {
    const int first = block * kMlaBlock + static_cast<int>(threadIdx.x) / 8;
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows[i] = FindAt(tile, walk.seen, first + i * kRowStep);
  }

  // Of a list, or of a row aside.
  __device__ KvRow FindAt(const Tile& tile, int seen, int at) const {
    return p.listed.positions != nullptr ? FindListed(p.listed, tile.at.index, seen, at)
                                         : FindRow(p.rows, tile.at, {0, seen}, at);
  }

  __device__ void Bring(const Tile& tile) {
    const MlaWalk walk(p.rows, tile);
    const int column = threadIdx.x % 8, first = threadIdx.x / 8;
    KvRow rows[kRows];
    if (walk.begin < walk.end) Find(tile, walk, walk.begin, rows);
    for (int block = walk.begin; block < walk.end; ++block, place.Advance()) {
      WaitBarrier(SharedAddress(&shared.free[place.slot]), place.parity ^ 1);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const KvRow at = Checked(p.rows, rows[i]);
        const bool there = at.block >= 0;
        const int64_t from = at.block * p.rows.k_stride + int64_t{at.offset} * kLatentKeyMax;
        const uint16_t* const key =
            static_cast<const uint16_t*>(p.rows.k) + (there ? from + column * 8 : 0);
        const int row = first + i * kRowStep;
        const uint32_t to = SharedAddress(&shared.k[place.slot][0][row][(column ^ row % 8) * 16]);
#pragma unroll
        for (int chunk = 0; chunk < kMlaChunks; ++chunk) {
          CopyAsync<16>(to + chunk * static_cast<int>(sizeof(shared.k[0][0])),
                        key + (there ? chunk * 64 : 0), there);
        }
      }
      CommitCopies();
      if (block + 1 < walk.end) Find(tile, walk, block + 1, rows);  // on their way meanwhile
      WaitCopies<0>();
      PublishToMatrices();
      Arrive(SharedAddress(&shared.full[place.slot]));
    }
  }
};

}  // namespace sluice::cuda
