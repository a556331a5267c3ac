// PrefixTree: which token prefixes have KV blocks. Step thread only. A node is one block's worth of
// tokens after its parent; roots are prefix keys. Nodes are found by the chained 128-bit hash and
// then compared by parent and tokens, so a hash collision is a miss, never a wrong hit.
//
// A node lives while a group has a block for it, a child hangs on it, or a sequence pins it. A node
// whose block was evicted in one group stays for the others.
//
// Invariants (CheckInvariants):
//   1. children, residents and pins of every live node are what counting gives; a live node has
//   one.
//   2. Every live node but the roots is found by its hash.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/hash128.h"

namespace sluice::blocks {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

// The chained key of a block: `parent` is the hash of the block before it, or of the key's root.
Hash128 RootHash(const std::string& encoded_key);
Hash128 BlockHash(const Hash128& parent, std::span<const int32_t> tokens);

class PrefixTree {
 public:
  // `expected_nodes` (the number of blocks is a good guess) sizes the tables: up to it a new node
  // allocates nothing.
  PrefixTree(int32_t groups, int32_t block_tokens, int32_t expected_nodes);

  // The root of an encoded prefix key, pinned once for the caller.
  NodeId PinRoot(const std::string& encoded_key);
  const Hash128& hash(NodeId node) const { return nodes_[node].hash; }

  // REQUIRES: tokens.size() == block_tokens, hash == BlockHash(hash(parent), tokens).
  NodeId Find(NodeId parent, const Hash128& hash, std::span<const int32_t> tokens) const;
  // Finds or makes the node; kNoNode when the hash belongs to other content.
  NodeId Insert(NodeId parent, const Hash128& hash, std::span<const int32_t> tokens);

  void Pin(NodeId node) { ++nodes_[node].pins; }
  void Unpin(NodeId node);

  // The group's block of the node, or -1.
  int32_t block(NodeId node, int32_t group) const { return blocks_[Index(node, group)]; }
  // REQUIRES: the node has no block in the group.
  void SetBlock(NodeId node, int32_t group, int32_t block);
  void ClearBlock(NodeId node, int32_t group);

  int32_t live_nodes() const { return live_; }
  void CheckInvariants() const;

 private:
  struct Node {
    Hash128 hash;
    NodeId parent = kNoNode;  // kNoNode: a root
    NodeId next = kNoNode;    // in the hash bucket, or in the list of unused nodes
    int32_t children = 0, residents = 0, pins = 0;
    bool live = false;
  };
  size_t Index(NodeId node, int32_t group) const {
    return static_cast<size_t>(node) * groups_ + group;
  }
  NodeId& Bucket(const Hash128& hash) { return buckets_[hash.low & (buckets_.size() - 1)]; }
  NodeId Take(NodeId parent, const Hash128& hash);
  // Frees the node and the ancestors that nothing holds any more.
  void Collect(NodeId node);

  const int32_t groups_;
  const int32_t block_tokens_;
  std::vector<NodeId> buckets_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;  // [nodes, block_tokens]
  std::vector<int32_t> blocks_;  // [nodes, groups]
  std::map<std::string, NodeId> roots_;
  std::map<NodeId, std::string> root_keys_;
  NodeId unused_ = kNoNode;
  int32_t live_ = 0;
};

}  // namespace sluice::blocks
