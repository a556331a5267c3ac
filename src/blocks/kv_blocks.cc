#include "blocks/kv_blocks.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::blocks {
namespace {

bool HasState(std::span<const batch::KvGroup> groups) {
  return std::any_of(groups.begin(), groups.end(), [](const batch::KvGroup& group) {
    return group.kind == batch::KvKind::kState;
  });
}

bool LetsGo(std::span<const batch::KvGroup> groups) {
  return std::any_of(groups.begin(), groups.end(), [](const batch::KvGroup& group) {
    return group.kind != batch::KvKind::kFull;
  });
}

// The tokens of a node of the prefix tree.
int32_t NodeTokens(std::span<const batch::KvGroup> groups) {
  int32_t least = groups[0].block_tokens;
  for (const batch::KvGroup& group : groups) least = std::min(least, group.block_tokens);
  return least;
}

int32_t TotalBlocks(std::span<const batch::KvGroup> groups) {
  int64_t total = 0;
  for (const batch::KvGroup& group : groups) total += group.num_blocks;
  return static_cast<int32_t>(std::min<int64_t>(total, 1 << 24));
}

}  // namespace

KvBlocks::KvBlocks(std::vector<batch::KvGroup> groups, bool prefix_cache)
    : groups_(std::move(groups)),
      prefix_cache_(prefix_cache),
      lets_go_(LetsGo(groups_)),
      block_tokens_(NodeTokens(groups_)),
      tree_(static_cast<int32_t>(groups_.size()), block_tokens_,
            prefix_cache_ ? TotalBlocks(groups_) : 0) {
  CHECK(batch::Validate(groups_).ok(), batch::Validate(groups_).message());
  for (const batch::KvGroup& group : groups_) pools_.emplace_back(group.num_blocks);
  pending_.reserve(TotalBlocks(groups_));
}

void KvBlocks::Open(const batch::PrefixKey& key, bool cacheable, SequenceBlocks* sequence) {
  CHECK(sequence->tip == kNoNode, "the sequence is open");
  sequence->groups.resize(groups_.size());
  sequence->cacheable = cacheable && prefix_cache_;
  if (!sequence->cacheable) return;
  sequence->tip = tree_.PinRoot(key.Encode());
  sequence->root = tree_.hash(sequence->tip);
}

void KvBlocks::Reserve(SequenceBlocks* sequence, int32_t length) const {
  for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
    sequence->groups[g].table.reserve(batch::BlocksFor(length, groups_[g].block_tokens));
  }
  if (sequence->cacheable) sequence->hashes.reserve(length / block_tokens());
}

void KvBlocks::Close(SequenceBlocks* sequence, uint64_t last_step) {
  for (size_t g = 0; g < sequence->groups.size(); ++g) {
    SequenceBlocks::Group& group = sequence->groups[g];
    // Last block first, so that the end of a prefix is evicted before its beginning.
    for (size_t i = group.table.size(); i-- > static_cast<size_t>(group.first_held);) {
      Release(static_cast<int32_t>(g), group.table[i], last_step);
    }
    group.table.clear();
    group.held = group.first_held = group.told = 0;
  }
  if (sequence->tip != kNoNode) tree_.Unpin(sequence->tip);
  sequence->tip = kNoNode;
  sequence->published = 0;
}

int32_t KvBlocks::Match(std::span<const int32_t> tokens, int32_t limit, SequenceBlocks* sequence) {
  if (!sequence->cacheable) return 0;
  CHECK(sequence->published == 0 && sequence->groups[0].table.empty(), "not freshly opened");
  const int32_t usable = std::min(static_cast<int32_t>(tokens.size()), limit) / block_tokens();
  const int32_t hit = LongestHit(tokens, usable, sequence);
  if (hit == 0) return 0;
  for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
    SequenceBlocks::Group& group = sequence->groups[g];
    const int32_t nodes = NodesOf(g), blocks = hit / nodes;
    group.first_held = batch::FirstNeededBlock(groups_[g], hit * block_tokens());
    group.held = blocks - group.first_held;
    group.table.assign(blocks, -1);
    for (int32_t i = group.first_held; i < blocks; ++i) {
      group.table[i] = tree_.block(match_nodes_[(i + 1) * nodes - 1], g);
      pools_[g].Ref(group.table[i]);
    }
  }
  MoveTip(sequence, match_nodes_[hit - 1]);
  sequence->published = hit;
  return hit * block_tokens();
}

int32_t KvBlocks::LongestHit(std::span<const int32_t> tokens, int32_t max_blocks,
                             SequenceBlocks* sequence) {
  match_nodes_.clear();
  match_runs_.assign(groups_.size(), 0);  // blocks without a gap up to the node at hand
  int32_t longest = 0;
  NodeId node = sequence->tip;
  for (int32_t i = 0; i < max_blocks; ++i) {
    Hash(tokens, i + 1, sequence);
    node =
        tree_.Find(node, sequence->hashes[i], tokens.subspan(i * block_tokens(), block_tokens()));
    if (node == kNoNode) break;
    match_nodes_.push_back(node);
    bool usable = true, hopeless = false;
    for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
      const int32_t nodes = NodesOf(g), blocks = (i + 1) / nodes;
      if ((i + 1) % nodes != 0) {  // within a block, so there is no state here
        usable = false;
        continue;
      }
      match_runs_[g] = tree_.block(node, g) >= 0 ? match_runs_[g] + 1 : 0;
      const int32_t first = batch::FirstNeededBlock(groups_[g], (i + 1) * block_tokens());
      if (match_runs_[g] >= blocks - first) continue;
      usable = false;
      hopeless = hopeless || groups_[g].kind == batch::KvKind::kFull;
    }
    if (hopeless) break;
    if (usable) longest = i + 1;
  }
  return longest;
}

bool KvBlocks::Fork(const SequenceBlocks& parent, int32_t length, uint64_t step,
                    SequenceBlocks* sequence, std::vector<Copy>* copies) {
  if (HasState(groups_) || !Holds(parent, length)) return false;
  const int32_t whole = length / block_tokens();
  const int32_t used = whole + (length % block_tokens() != 0 ? 1 : 0);
  const int32_t group_count = static_cast<int32_t>(groups_.size());
  for (int32_t g = 0; g < group_count; ++g) {
    const SequenceBlocks::Group& from = parent.groups[g];
    if (static_cast<int32_t>(from.table.size()) < used) return false;
    if (used > whole && pools_[g].available() == 0) return false;
  }
  for (int32_t g = 0; g < group_count; ++g) {
    const SequenceBlocks::Group& from = parent.groups[g];
    SequenceBlocks::Group& to = sequence->groups[g];
    to.first_held = batch::FirstNeededBlock(groups_[g], length);
    to.held = used - to.first_held;
    to.table.assign(used, -1);
    for (int32_t i = to.first_held; i < whole; ++i) {
      to.table[i] = from.table[i];
      pools_[g].Ref(to.table[i]);
    }
    if (used == whole) continue;
    to.table[whole] = Allocate(g);
    copies->push_back({g, from.table[whole], to.table[whole]});
    pools_[g].Ref(from.table[whole]);
    Release(g, from.table[whole], step);
  }
  return true;
}

bool KvBlocks::Grow(SequenceBlocks* sequence, int32_t length) {
  if (GrowableTo(*sequence, length, false) < length) return false;
  for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
    SequenceBlocks::Group& group = sequence->groups[g];
    const int32_t target = batch::BlocksFor(length, groups_[g].block_tokens);
    while (static_cast<int32_t>(group.table.size()) < target) {
      group.table.push_back(Allocate(g));
      ++group.held;
    }
  }
  return true;
}

int32_t KvBlocks::GrowableTo(const SequenceBlocks& sequence, int32_t length, bool soon) const {
  int64_t reach = length;
  for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
    const int64_t blocks =
        static_cast<int64_t>(sequence.groups[g].table.size()) + Available(g, soon);
    reach = std::min(reach, blocks * groups_[g].block_tokens);
  }
  return static_cast<int32_t>(reach);
}

void KvBlocks::LetGoOfBlocks(SequenceBlocks* sequence, int32_t first, uint64_t last_step) {
  for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
    SequenceBlocks::Group& group = sequence->groups[g];
    const int32_t end = std::min(batch::FirstNeededBlock(groups_[g], first),
                                 static_cast<int32_t>(group.table.size()));
    for (; group.first_held < end; ++group.first_held, --group.held) {
      Release(g, group.table[group.first_held], last_step);
      group.table[group.first_held] = -1;
    }
  }
}

bool KvBlocks::Holds(const SequenceBlocks& sequence, int32_t first) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (sequence.groups[g].first_held > batch::FirstNeededBlock(groups_[g], first)) return false;
  }
  return true;
}

void KvBlocks::PublishBlocks(std::span<const int32_t> tokens, int32_t full,
                             SequenceBlocks* sequence) {
  Hash(tokens, full, sequence);
  for (int32_t i = sequence->published; i < full; ++i) {
    const NodeId node = tree_.Insert(sequence->tip, sequence->hashes[i],
                                     tokens.subspan(i * block_tokens(), block_tokens()));
    if (node == kNoNode) {  // the hash is taken by other content
      sequence->cacheable = false;
      return;
    }
    MoveTip(sequence, node);
    sequence->published = i + 1;
    for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
      const int32_t nodes = NodesOf(g);
      if ((i + 1) % nodes != 0) continue;
      const int32_t block = sequence->groups[g].table[(i + 1) / nodes - 1];
      if (block < 0 || tree_.block(node, g) >= 0) continue;
      tree_.SetBlock(node, g, block);
      pools_[g].SetNode(block, node);
    }
  }
}

void KvBlocks::AddNeed(const SequenceBlocks& sequence, int32_t length, int32_t chunk,
                       std::span<int32_t> need) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int32_t held = sequence.groups.empty() ? 0 : sequence.groups[g].held;
    need[g] += std::max(0, batch::PeakBlocks(groups_[g], length, chunk) - held);
  }
}

bool KvBlocks::Covers(std::span<const int32_t> need, bool soon) const {
  for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
    if (Available(g, false) < need[g] && (!soon || Available(g, true) < need[g])) return false;
  }
  return true;
}

void KvBlocks::Retire(uint64_t step) {
  retired_ = std::max(retired_, step);
  size_t kept = 0;
  for (const Pending& pending : pending_) {
    if (pending.step > retired_) {
      pending_[kept++] = pending;
    } else {
      Unref(pending.group, pending.block);
    }
  }
  pending_.resize(kept);
}

int32_t KvBlocks::ClearCache() {
  int32_t cleared = 0;
  for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
    BlockPool& pool = pools_[g];
    for (int32_t block = pool.LeastRecentlyUsed(); block != BlockPool::kNone;
         block = pool.LeastRecentlyUsed()) {
      const NodeId node = pool.node(block);
      pool.SetNode(block, BlockPool::kNone);
      tree_.ClearBlock(node, g);
      ++cleared;
    }
  }
  return cleared;
}

int32_t KvBlocks::TellKernelTable(SequenceBlocks* sequence, int32_t group, int32_t length,
                                  std::vector<int32_t>* ids) const {
  const batch::KvGroup& spec = groups_[group];
  SequenceBlocks::Group& blocks = sequence->groups[group];
  const int32_t ratio = spec.ratio();
  const int32_t count = batch::TableWidth(spec, length);
  CHECK((count + ratio - 1) / ratio <= static_cast<int32_t>(blocks.table.size()),
        "length=", length);
  const int32_t first = blocks.told;
  for (int32_t i = first; i < count; ++i) {
    const int32_t block = blocks.table[i / ratio];
    ids->push_back(block < 0 ? -1 : block * ratio + i % ratio);
  }
  blocks.told = std::max(first, count);
  return first;
}

int32_t KvBlocks::Available(int32_t group, bool soon) const {
  int32_t count = pools_[group].available();
  if (!soon) return count;
  for (const Pending& pending : pending_) {
    if (pending.group == group) count += pools_[group].references(pending.block) == 1 ? 1 : 0;
  }
  return count;
}

int32_t KvBlocks::Allocate(int32_t group) {
  int32_t evicted = BlockPool::kNone;
  const int32_t block = pools_[group].Allocate(&evicted);
  if (evicted != BlockPool::kNone) tree_.ClearBlock(evicted, group);
  return block;
}

void KvBlocks::Unref(int32_t group, int32_t block) {
  if (pools_[group].Unref(block)) ++availability_version_;
}

void KvBlocks::Release(int32_t group, int32_t block, uint64_t last_step) {
  if (last_step <= retired_) {
    Unref(group, block);
  } else {
    pending_.push_back({last_step, group, block});
  }
}

void KvBlocks::MoveTip(SequenceBlocks* sequence, NodeId node) {
  tree_.Pin(node);
  tree_.Unpin(sequence->tip);
  sequence->tip = node;
}

void KvBlocks::Hash(std::span<const int32_t> tokens, int32_t blocks, SequenceBlocks* sequence) {
  for (int32_t i = static_cast<int32_t>(sequence->hashes.size()); i < blocks; ++i) {
    const Hash128 parent = i == 0 ? sequence->root : sequence->hashes[i - 1];
    sequence->hashes.push_back(
        BlockHash(parent, tokens.subspan(i * block_tokens(), block_tokens())));
  }
}

void KvBlocks::CheckInvariants(std::span<const SequenceBlocks* const> open) const {
  tree_.CheckInvariants();
  for (int32_t g = 0; g < static_cast<int32_t>(groups_.size()); ++g) {
    const BlockPool& pool = pools_[g];
    pool.CheckInvariants();
    std::vector<int32_t> references(pool.size(), 0);
    for (const SequenceBlocks* sequence : open) {
      if (sequence->groups.empty()) continue;
      const SequenceBlocks::Group& group = sequence->groups[g];
      int32_t held = 0;
      for (size_t i = 0; i < group.table.size(); ++i) {
        CHECK((group.table[i] < 0) == (static_cast<int32_t>(i) < group.first_held), "entry ", i);
        if (group.table[i] < 0) continue;
        ++references[group.table[i]];
        ++held;
      }
      CHECK(held == group.held, "held=", held);
    }
    for (const Pending& pending : pending_) {
      CHECK(pending.step > retired_, "step ", pending.step);
      if (pending.group == g) ++references[pending.block];
    }
    for (int32_t block = 0; block < pool.size(); ++block) {
      CHECK(references[block] == pool.references(block), "group ", g, " block ", block, ": ",
            references[block], " owners, ", pool.references(block), " references");
      const NodeId node = pool.node(block);
      CHECK(node == kNoNode || tree_.block(node, g) == block, "group ", g, " block ", block);
    }
  }
}

}  // namespace sluice::blocks
