// The items that the warps of the kernel that streams (stream_attention.cuh) take one after
// another: single splits of the rows of one token and KV head, or all of them where there is no
// room for partial results. Tickets, tables and plan entries of the next item are read while a warp
// is busy with this one.
#pragma once

#include "backend/cuda/attention/walk.cuh"

namespace sluice::cuda {

// Of a warp: the item that it is busy with, and its next one, in turn.
struct StreamTurns {
  Tile tiles[2];
  Visible seen[2];
  int2 blocks[2];  // of positions, [first, end)
};
struct StreamItemsShared {
  NearEntries<kStreamEntries> near;
  StreamTurns turns[kStreamWarps];
};

// Called by whole warps.
template <int kBlock>
class StreamItems {
 public:
  static constexpr int kBlocksPerSplit = kSplitTokens / kBlock;

  __device__ __forceinline__ StreamItems(const AttentionParams& params, StreamItemsShared& shared)
      : p_(params),
        near_(shared.near),
        of_warp_(shared.turns[threadIdx.x / 32]),
        lane_(threadIdx.x % 32) {}

  __device__ __forceinline__ int turn() const { return turn_; }
  __device__ __forceinline__ const Tile& tile(int which) const { return of_warp_.tiles[which]; }
  __device__ __forceinline__ const Tile& tile() const { return tile(turn_); }
  __device__ __forceinline__ Visible seen(int which) const { return of_warp_.seen[which]; }
  __device__ __forceinline__ int2 blocks(int which) const { return of_warp_.blocks[which]; }

  // An item without rows that belongs to no plan.
  __device__ __forceinline__ void Rehearse() {
    if (lane_ == 0) {
      Tile none = {};
      none.at.tokens = 1;
      none.splits = 2;
      of_warp_.tiles[0] = none;
    }
    __syncwarp();
  }

  // Reads the plan and places the first of the warp's items. As many warps of each thread block
  // take part as there are items for: 0 if this is none of them. All threads call together.
  __device__ __forceinline__ int Begin() {
    near_.Read(p_);
    const int items = near_.head[kStreamItems], blocks = static_cast<int>(gridDim.x);
    int warps = 1;
    while (warps < kStreamWarps && warps * blocks < items) warps *= 2;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp >= warps) return 0;
    warps_ = warps * blocks;
    Place(0, warp * blocks + static_cast<int>(blockIdx.x));
    // Others than the first go to whoever asks next.
    if (lane_ == 0 && tile().rows > 0) ticket_ = TakeTicket();
    return warps;
  }
  // Looks up the item behind this one. Its ticket has had the time of an item to arrive.
  __device__ __forceinline__ void LookAhead() {
    const int index = __shfl_sync(0xffffffffu, ticket_, 0);
    Place(turn_ ^ 1, index);
    if (lane_ == 0 && index < near_.head[kStreamItems]) ticket_ = TakeTicket();
  }
  __device__ __forceinline__ void Advance() { turn_ ^= 1; }
  // The last warp makes the list new for who reads it next. All tickets were used by then.
  __device__ __forceinline__ void Leave() const {
    if (lane_ != 0 || atomicAdd(&p_.plan[kFinished], 1) + 1 < warps_) return;
    p_.plan[kTickets] = p_.plan[kFinished] = 0;
  }

 private:
  __device__ __forceinline__ int TakeTicket() const {
    return warps_ + atomicAdd(&p_.plan[kTickets], 1);
  }
  // Makes the tile `which` that of item `index`, or one without rows if there is none.
  __device__ __forceinline__ void Place(int which, int index) {
    Tile placed = {};
    if (index < near_.head[kStreamItems]) {
      const int item = near_.head[kItems] + index;
      placed = ItemAt(p_, 1, near_.Find(p_, item, ItemOf), item);
    }
    __syncwarp();
    if (lane_ == 0) {
      of_warp_.tiles[which] = placed;
      of_warp_.blocks[which] = {0, 0};
      if (placed.rows > 0) {
        const Visible seen = VisibleToRows(p_, placed.at, placed.row, placed.rows);
        of_warp_.seen[which] = seen;
        of_warp_.blocks[which] = {
            max(seen.first / kBlock, placed.piece_begin * kBlocksPerSplit),
            max(min((seen.end + kBlock - 1) / kBlock, placed.piece_end * kBlocksPerSplit), 0)};
      }
    }
    __syncwarp();
  }

  const AttentionParams& p_;
  NearEntries<kStreamEntries>& near_;
  StreamTurns& of_warp_;
  const int lane_;
  int warps_ = 0;         // of the launch, that take part
  int ticket_ = INT_MAX;  // of the first lane: the item behind the next one
  int turn_ = 0;
};

}  // namespace sluice::cuda
