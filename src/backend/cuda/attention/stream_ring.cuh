// The rings in shared memory that the warps of the kernel that streams (stream_attention.cuh) read
// K and V from. The copy engine fills them with boxes of 16 positions, those of K of a block of 64
// and then those of V. A slot of the ring has several, and as soon as they are read the next are
// asked for; this runs on into the warp's next item, so that the memory never waits for a warp, nor
// a warp for another.
#pragma once

#include "backend/cuda/attention/kv_codes.cuh"
#include "backend/cuda/attention/kv_maps.h"
#include "backend/cuda/attention/stream_items.cuh"
#include "backend/cuda/simt/bulk_copy.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

// Called by whole warps. The warp's items are an argument, so that all of both stays in registers.
template <KvForm kForm, int kDim>
class StreamRing {
 public:
  static constexpr bool kCodes = kForm != KvForm::kPlain;
  static constexpr int kBlock = 64, kBox = kStreamBox, kParts = kBlock / kBox;
  static constexpr int kHalfBytes = kBox * 128, kBoxBytes = StreamBoxBytes(kDim, kCodes);
  static constexpr int kBoxes = kStreamSlotBytes / kBoxBytes;             // of a slot
  static constexpr int kSlots = kStreamRingBytes / kStreamSlotBytes;      // of the thread block
  static constexpr uint32_t kOfK = kParts / kBoxes, kOfBlock = 2 * kOfK;  // slots
  using Items = StreamItems<kBlock>;
  static constexpr uint32_t kOfSplit = kOfBlock * Items::kBlocksPerSplit;

  struct Shared {
    char boxes[kSlots][kBoxes][kBoxBytes];
    float scales[kCodes ? kSlots : 1][kBoxes][kBox];  // of codes, of the boxes in the slot
    uint64_t full[kSlots];
  };

  __device__ __forceinline__ StreamRing(const AttentionParams& params, const KvMaps& maps,
                                        Shared& shared)
      : p_(params),
        maps_(maps),
        shared_(shared),
        lane_(threadIdx.x % 32),
        policy_(ReadOncePolicy()) {}

  // By all threads, before a __syncthreads().
  __device__ __forceinline__ void Init() {
    for (int i = threadIdx.x; i < kSlots; i += kStreamThreads)
      InitBarrier(SharedAddress(&shared_.full[i]), 1);
    PublishBarriers();
  }
  // Nothing is asked for. Phases of this parity have ended before the first.
  __device__ __forceinline__ void Rehearse() {
    ring_ = slot_ = 0;
    room_ = kSlots;
    asked_ = 2 * kSlots;
    parity_ = 1;
    ahead_ = ahead_end_ = 0;
    ahead_turn_ = 1;
    pages_ = next_pages_ = {-1, 0};
  }
  // The first item is placed, and `warps` of the thread block take part.
  __device__ __forceinline__ void Begin(const Items& items, int warps) {
    room_ = kSlots / warps;
    ring_ = slot_ = static_cast<int>(threadIdx.x) / 32 * room_;
    asked_ = 0;
    parity_ = 0;
    LookUp(items, 0);
    AskFor(items, 0);
    while (asked_ < room_ && ahead_ < ahead_end_) Ask(items);
  }
  // Looks up the first pages of a tile that has been placed.
  __device__ __forceinline__ void LookUp(const Items& items, int which) {
    next_pages_ = {-1, 0};
    if (items.tile(which).rows > 0)
      next_pages_ = FindPages(Table(items, which), p_.block_tokens, items.seen(which),
                              items.blocks(which).x / Items::kBlocksPerSplit);
  }
  // The warp has gone on to its next item.
  __device__ __forceinline__ void Advance(const Items& items) {
    if (ahead_turn_ != items.turn()) AskFor(items, items.turn());
  }
  // Asks for as many slots as there are.
  __device__ __forceinline__ void Fill(const Items& items) {
    while (asked_ < room_) {
      if (ahead_ < ahead_end_) {
        Ask(items);
      } else if (ahead_turn_ == items.turn()) {
        AskFor(items, items.turn() ^ 1);
      } else {
        break;
      }
    }
  }

  __device__ __forceinline__ void Await() const {
    WaitBarrier(SharedAddress(&shared_.full[slot_]), parity_);
  }
  // Of the slot that is read.
  __device__ __forceinline__ char* box(int i) const { return shared_.boxes[slot_][i]; }
  __device__ __forceinline__ const float* scales(int i) const { return shared_.scales[slot_][i]; }
  // The slot is read.
  __device__ __forceinline__ void LeaveSlot(const Items& items) {
    __syncwarp();
    --asked_;
    if (++slot_ == ring_ + room_) slot_ = ring_, parity_ ^= 1;
    Fill(items);
  }

 private:
  __device__ __forceinline__ const int32_t* Table(const Items& items, int which) const {
    return p_.block_table + items.tile(which).at.index * p_.table_stride;
  }
  // Where the lane's box of a split lies: nowhere, if no row sees it.
  __device__ __forceinline__ static KvRow FindPages(const int32_t* table, int block_tokens,
                                                    const Visible& seen, int split) {
    const int lane = threadIdx.x % 32, position = split * kSplitTokens + lane * kBox;
    if (lane >= kSplitTokens / kBox || position >= seen.end || position + kBox <= seen.first)
      return {-1, 0};
    const int column = position / block_tokens;
    return {table[column], position - column * block_tokens};
  }
  // It sees its arguments alone, so that all else stays in registers.
  static __device__ __noinline__ KvRow PagesOf(const int32_t* table, int block_tokens, Visible seen,
                                               int split) {
    return FindPages(table, block_tokens, seen, split);
  }

  // Goes on with what is asked for to the first block of a tile.
  __device__ __forceinline__ void AskFor(const Items& items, int which) {
    const int2 blocks = items.blocks(which);
    ahead_ = blocks.x * kOfBlock;
    ahead_end_ = blocks.y * kOfBlock;
    ahead_turn_ = which;
    pages_ = next_pages_;
    LimitPages();
  }
  // Pages that are none become the first block behind the tensor, which is brought as zeros.
  __device__ __forceinline__ void LimitPages() {
    if (static_cast<unsigned>(pages_.block) >= p_.kernel_blocks) pages_.block = p_.kernel_blocks;
  }

  // Asks for the boxes of the next slot. All lanes are past their use of it.
  __device__ __forceinline__ void Ask(const Items& items) {
    const uint32_t box =
        ahead_ % kOfSplit / kOfBlock * kParts + ahead_ % kOfK * kBoxes + lane_ % kBoxes;
    const int page = __shfl_sync(0xffffffffu, pages_.block, box);
    const int offset = __shfl_sync(0xffffffffu, pages_.offset, box);
    const bool is_v = ahead_ % kOfBlock >= kOfK, there = page < p_.kernel_blocks;
    int to = slot_ + asked_;
    if (to >= ring_ + room_) to -= room_;
    uint32_t scales = 0;
    if constexpr (kCodes) {
      const uint32_t missing = __ballot_sync(0xffffffffu, !there) & ((1u << kBoxes) - 1);
      if (missing != 0) ClearScales(shared_.scales[to][0], missing);
      scales = (kBoxes - __popc(missing)) * kBox * 4;
    }
    if (lane_ < kBoxes) {
      const uint32_t arrived = SharedAddress(&shared_.full[to]);
      const uint32_t place = SharedAddress(shared_.boxes[to][lane_]);
      const int kv_head = items.tile(ahead_turn_).kv_head;
      if (lane_ == 0) ArriveExpecting(arrived, kStreamSlotBytes + scales);
      const void* const map = is_v ? &maps_.v : &maps_.k;
      CopyBoxOnce(place, map, 0, offset, kv_head, page, arrived, policy_);
      if constexpr (kBoxBytes > kHalfBytes)
        CopyBoxOnce(place + kHalfBytes, map, 64, offset, kv_head, page, arrived, policy_);
      if (kCodes && there) {
        const int inside = kv_head * p_.block_tokens + offset;
        const float* const from = is_v ? p_.v_scale + page * p_.v_scale_stride + inside
                                       : p_.k_scale + page * p_.k_scale_stride + inside;
        CopyBytes(SharedAddress(shared_.scales[to][lane_]), from, kBox * 4, arrived);
      }
    }
    ++asked_;
    if (++ahead_ % kOfSplit == 0 && ahead_ < ahead_end_) {
      // Rare: an item of several splits, where there is no room for partial results.
      pages_ = PagesOf(Table(items, ahead_turn_), p_.block_tokens, items.seen(ahead_turn_),
                       ahead_ / kOfSplit);
      LimitPages();
    }
  }
  // Rare, as the one above: those of boxes that are nowhere.
  static __device__ __noinline__ void ClearScales(float* scales, uint32_t missing) {
    for (int i = threadIdx.x % 32; i < kBoxes * kBox; i += 32) {
      if ((missing >> i / kBox & 1) != 0) scales[i] = 0.0f;
    }
    PublishToMatrices();
    __syncwarp();
  }

  const AttentionParams& p_;
  const KvMaps& maps_;
  Shared& shared_;
  const int lane_;
  const uint64_t policy_;
  int ring_, room_;  // the first of the warp's slots, and how many it has
  int slot_;         // that is read next
  int asked_;        // those that are on their way
  uint32_t parity_;  // of the phase that ends when what is to be read is there
  // What is asked for next: slots [ahead, ahead_end) of blocks, first those of K, then those of V,
  // of one of the warp's tiles. Each of the lower lanes has the page of one box of the split.
  uint32_t ahead_, ahead_end_;
  int ahead_turn_;
  KvRow pages_, next_pages_;
};

}  // namespace sluice::cuda
