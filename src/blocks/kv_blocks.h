// KvBlocks: the block tables of all sequences over all layer groups: pools, prefix tree, forks and
// late release. Step thread only. Bookkeeping: it never sees a device or a byte of KV.
//
// A block is given back when the last step that names it has retired: every release carries that
// step's id and takes effect in Retire. A block that a sequence writes has one reference.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/hash128.h"
#include "batch/kv_group.h"
#include "batch/prefix_key.h"
#include "blocks/pool.h"
#include "blocks/prefix_tree.h"
#include "sluice/status.h"

namespace sluice::blocks {

// The blocks of one sequence. Owned by the caller, changed by KvBlocks alone.
struct SequenceBlocks {
  struct Group {
    std::vector<int32_t> table;  // cache-block ids by position / block_tokens; -1: let go
    int32_t held = 0;            // entries that are not -1
    int32_t first_held = 0;      // entries below are -1
    int32_t told = 0;            // kernel blocks that plans have told
  };
  std::vector<Group> groups;
  bool cacheable = false;
  NodeId tip = kNoNode;         // pinned: the node of block `published - 1`, or the root
  int32_t published = 0;        // blocks known to the tree
  Hash128 root;                 // of the prefix key
  std::vector<Hash128> hashes;  // of the first blocks, computed once; kept when closed
};

// A copy of one cache block to another before the step runs.
struct Copy {
  int32_t group = 0;
  int32_t source = 0;
  int32_t destination = 0;
};

class KvBlocks {
 public:
  // REQUIRES: batch::Validate(groups).ok().
  KvBlocks(std::vector<batch::KvGroup> groups, bool prefix_cache);

  const std::vector<batch::KvGroup>& groups() const { return groups_; }
  const BlockPool& pool(int32_t group) const { return pools_[group]; }
  const PrefixTree& tree() const { return tree_; }
  // Tokens of a node of the prefix tree: those of a block, in a group of states a part of one.
  int32_t block_tokens() const { return block_tokens_; }

  // Starts a sequence without blocks. `cacheable`: it may use and feed the prefix cache.
  void Open(const batch::PrefixKey& key, bool cacheable, SequenceBlocks* sequence);
  // Makes room for the bookkeeping of `length` tokens, so that growing to them allocates nothing.
  void Reserve(SequenceBlocks* sequence, int32_t length) const;
  // Gives everything back once step `last_step` has retired; the sequence may be opened again.
  void Close(SequenceBlocks* sequence, uint64_t last_step);

  // Gives a freshly opened sequence the longest cached prefix of `tokens` that is at most `limit`
  // tokens. A hit of length L needs the blocks of [0, L) in full groups and those that a query at L
  // reads in window groups; in groups of states, the state at L. Returns L, a multiple of
  // block_tokens, and where there are states of theirs.
  int32_t Match(std::span<const int32_t> tokens, int32_t limit, SequenceBlocks* sequence);
  // Gives a freshly opened sequence the first `length` tokens of `parent`: whole blocks shared, the
  // last partial block copied (appended to *copies; its source is held until `step` retires).
  // False, and nothing changes, when the parent let blocks go that a query at `length` reads, when
  // memory is short, or in the presence of a state group.
  // REQUIRES: the KV of [0, length) was written by steps before `step`.
  bool Fork(const SequenceBlocks& parent, int32_t length, uint64_t step, SequenceBlocks* sequence,
            std::vector<Copy>* copies);

  // Whether the tables hold `length` tokens in every group already.
  bool HasRoom(const SequenceBlocks& sequence, int32_t length) const {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int64_t blocks = static_cast<int64_t>(sequence.groups[g].table.size());
      if (blocks * groups_[g].block_tokens < length) return false;
    }
    return true;
  }
  // Extends the tables to hold `length` tokens in every group, or changes nothing.
  bool Grow(SequenceBlocks* sequence, int32_t length);
  // The largest length <= `length` to which Grow would succeed; with `soon`, once all pending
  // releases have retired.
  int32_t GrowableTo(const SequenceBlocks& sequence, int32_t length, bool soon) const;
  // Lets go of blocks that no query at or after `first` reads; they were last named by
  // `last_step`.
  void LetGo(SequenceBlocks* sequence, int32_t first, uint64_t last_step) {
    if (lets_go_) LetGoOfBlocks(sequence, first, last_step);
  }
  // Whether a query at `first` finds every block it reads, if their KV is written.
  bool Holds(const SequenceBlocks& sequence, int32_t first) const;
  // Makes the full blocks among the first `computed` tokens known to the prefix tree.
  // REQUIRES: their KV is written and the tokens are final.
  void Publish(std::span<const int32_t> tokens, int32_t computed, SequenceBlocks* sequence) {
    // Most steps fill no block.
    if (!sequence->cacheable || computed < (sequence->published + 1) * block_tokens()) return;
    PublishBlocks(tokens, computed / block_tokens(), sequence);
  }

  // Adds to need[group] the blocks that the sequence still lacks to reach `length` tokens in chunks
  // of at most `chunk`.
  void AddNeed(const SequenceBlocks& sequence, int32_t length, int32_t chunk,
               std::span<int32_t> need) const;
  // Whether the pools cover need[group] now; with `soon`, once all pending releases have retired.
  bool Covers(std::span<const int32_t> need, bool soon) const;

  // Step `step` and all before it have finished on the device and nobody reads their blocks.
  void Retire(uint64_t step);
  // Forgets every cached block that no sequence references. Returns how many.
  int32_t ClearCache();

  // Appends the kernel-block ids that hold the first `length` tokens, but for those that it told
  // since the sequence was opened. Returns the index of the first of them.
  int32_t TellKernelTable(SequenceBlocks* sequence, int32_t group, int32_t length,
                          std::vector<int32_t>* ids) const;

  // Grows whenever a block becomes available; equal values mean that a failed Grow fails again.
  uint64_t availability_version() const { return availability_version_; }
  // CHECKs the pools, the tree, and that `open` (every open sequence) and the pending releases hold
  // exactly the references that exist.
  void CheckInvariants(std::span<const SequenceBlocks* const> open) const;

 private:
  struct Pending {
    uint64_t step;
    int32_t group;
    int32_t block;
  };
  void LetGoOfBlocks(SequenceBlocks* sequence, int32_t first, uint64_t last_step);
  void PublishBlocks(std::span<const int32_t> tokens, int32_t full, SequenceBlocks* sequence);
  // Nodes of the prefix tree that a block of the group spans.
  int32_t NodesOf(int32_t group) const { return groups_[group].block_tokens / block_tokens_; }
  int32_t Available(int32_t group, bool soon) const;
  int32_t Allocate(int32_t group);
  void Unref(int32_t group, int32_t block);
  void Release(int32_t group, int32_t block, uint64_t last_step);
  void MoveTip(SequenceBlocks* sequence, NodeId node);
  // Hashes up to `blocks` blocks of `tokens` that are not hashed yet.
  void Hash(std::span<const int32_t> tokens, int32_t blocks, SequenceBlocks* sequence);
  // The number of blocks of the longest usable hit; fills match_nodes_.
  int32_t LongestHit(std::span<const int32_t> tokens, int32_t max_blocks, SequenceBlocks* sequence);

  const std::vector<batch::KvGroup> groups_;
  const bool prefix_cache_;
  const bool lets_go_;  // a group gives blocks back while its sequence runs
  const int32_t block_tokens_;
  std::vector<BlockPool> pools_;
  PrefixTree tree_;
  std::vector<Pending> pending_;
  uint64_t retired_ = 0;
  uint64_t availability_version_ = 0;
  std::vector<NodeId> match_nodes_;  // scratch
  std::vector<int32_t> match_runs_;  // scratch, by group
};

}  // namespace sluice::blocks
