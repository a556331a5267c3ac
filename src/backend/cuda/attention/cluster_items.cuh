// The items of the kernel in which a cluster of thread blocks shares a split
// (cluster_attention.cuh): single splits of the rows of one token and KV head, as the plan and the
// block table have them.
#pragma once

#include "backend/cuda/attention/walk.cuh"

namespace sluice::cuda {

// No rows: there is none.
struct ClusterItem {
  Tile tile;
  Visible all;
  KvRow page;  // of the lane's part of 16 positions, in the lower lanes; block -1: nowhere
};

// Called by whole warps. The plan and the table may be read before the kernels that write them have
// ended, to be compared with what they have then.
class ClusterItems {
 public:
  __device__ explicit ClusterItems(const AttentionParams& params) : p_(params) {}

  // Items of the plan that was read.
  __device__ int count() const { return listed_.head[1].w; }
  __device__ void Read() { listed_ = Listing(); }
  // Whether the plan or the pages of the item are others than they were when this warp read them:
  // another may have read them before they changed, so each asks for itself.
  __device__ bool Changed() const {
    const Listed now = Listing(), &before = listed_;
    const int page = table_at_ == nullptr ? 0 : __ldcg(table_at_);
    const auto differ = [](const int4& a, const int4& b) {
      return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0;
    };
    // The first two numbers of the head are tickets.
    return before.head[0].z != now.head[0].z || before.head[0].w != now.head[0].w ||
           differ(before.head[1], now.head[1]) || differ(before.entry[0], now.entry[0]) ||
           differ(before.entry[1], now.entry[1]) || page != page_there_;
  }

  // An item. What was read may have been changing, or never written: an item is then none, or some
  // place inside all tensors.
  __device__ ClusterItem Find(int index) {
    const Listed& listed = listed_;
    const int lane = threadIdx.x % 32;
    const int first_item = listed.head[0].w;
    ClusterItem found = {};
    found.page = {-1, 0};
    table_at_ = nullptr;
    page_there_ = 0;
    const unsigned begun = __ballot_sync(0xffffffffu, lane < min(listed.head[0].z, p_.sequences) &&
                                                          listed.entry[0].x <= first_item + index);
    if (index >= listed.head[1].w || begun == 0) return found;
    const auto of_entry = [from = 31 - __clz(begun)](int x) {
      return __shfl_sync(0xffffffffu, x, from);
    };
    const PlanEntry entry = {of_entry(listed.entry[0].x), of_entry(listed.entry[0].y),
                             of_entry(listed.entry[0].z), of_entry(listed.entry[0].w),
                             of_entry(listed.entry[1].x), of_entry(listed.entry[1].y),
                             of_entry(listed.entry[1].z), 0};
    const bool sound = entry.item >= 0 && entry.sequence >= 0 && entry.sequence < p_.sequences &&
                       entry.tokens > 0 && entry.tokens <= p_.stream_tokens &&
                       entry.first_token >= 0 && entry.first_token <= p_.tokens - entry.tokens &&
                       entry.context >= entry.tokens &&
                       entry.context <= int64_t{p_.blocks_max} * p_.block_tokens;
    if (!sound) return found;
    const Tile tile = ItemAt(p_, 1, entry, first_item + index);
    if (tile.row < 0 || tile.row + tile.rows > entry.tokens * p_.group) return found;
    found.tile = tile;
    found.all = VisibleToRows(p_, tile.at, tile.row, tile.rows);
    const int position = tile.piece_begin * kSplitTokens + lane * kStreamBox;
    if (lane >= kSplitTokens / kStreamBox || position >= found.all.end ||
        position + kStreamBox <= found.all.first)
      return found;
    const int column = position / p_.block_tokens;
    table_at_ = p_.block_table + tile.at.index * p_.table_stride + column;
    page_there_ = __ldcg(table_at_);
    if (static_cast<unsigned>(page_there_) < static_cast<unsigned>(p_.kernel_blocks))
      found.page = {page_there_, position - column * p_.block_tokens};
    return found;
  }

 private:
  // What the plan has: its head, and the lane's entry.
  struct Listed {
    int4 head[2], entry[2];
  };
  __device__ Listed Listing() const {
    static_assert(kEntries == 2 && kItems == 3 && kStreamItems == 7 && kHeadSize == 8);
    const int lane = threadIdx.x % 32;
    const int4* const plan = reinterpret_cast<const int4*>(p_.plan);
    Listed listed = {{__ldcg(plan), __ldcg(plan + 1)}, {}};
    if (lane < p_.sequences) {
      listed.entry[0] = __ldcg(plan + 2 + 2 * lane);
      listed.entry[1] = __ldcg(plan + 3 + 2 * lane);
    }
    return listed;
  }

  const AttentionParams& p_;
  Listed listed_ = {};
  // Where the lane's page was looked up, null: nowhere, and what was there.
  const int32_t* table_at_ = nullptr;
  int32_t page_there_ = 0;
};

}  // namespace sluice::cuda
