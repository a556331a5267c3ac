#include "blocks/prefix_tree.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace sluice::blocks {

Hash128 RootHash(const std::string& encoded_key) {
  return HashBytes(std::as_bytes(std::span(encoded_key)), Hash128{});
}

Hash128 BlockHash(const Hash128& parent, std::span<const int32_t> tokens) {
  return HashBytes(std::as_bytes(tokens), parent);
}

PrefixTree::PrefixTree(int32_t groups, int32_t block_tokens, int32_t expected_nodes)
    : groups_(groups),
      block_tokens_(block_tokens),
      buckets_(std::bit_ceil(static_cast<uint32_t>(std::max(expected_nodes, 16))), kNoNode) {
  nodes_.reserve(expected_nodes);
  tokens_.reserve(static_cast<size_t>(expected_nodes) * block_tokens_);
  blocks_.reserve(static_cast<size_t>(expected_nodes) * groups_);
}

NodeId PrefixTree::PinRoot(const std::string& encoded_key) {
  auto [it, is_new] = roots_.try_emplace(encoded_key, kNoNode);
  if (is_new) {
    it->second = Take(kNoNode, RootHash(encoded_key));
    root_keys_[it->second] = encoded_key;
  }
  Pin(it->second);
  return it->second;
}

NodeId PrefixTree::Find(NodeId parent, const Hash128& hash, std::span<const int32_t> tokens) const {
  NodeId node = buckets_[hash.low & (buckets_.size() - 1)];
  while (node != kNoNode && nodes_[node].hash != hash) node = nodes_[node].next;
  if (node == kNoNode || nodes_[node].parent != parent) return kNoNode;
  const auto own = tokens_.begin() + static_cast<int64_t>(node) * block_tokens_;
  return std::equal(tokens.begin(), tokens.end(), own) ? node : kNoNode;
}

NodeId PrefixTree::Insert(NodeId parent, const Hash128& hash, std::span<const int32_t> tokens) {
  CHECK(static_cast<int32_t>(tokens.size()) == block_tokens_, "size=", tokens.size());
  for (NodeId node = Bucket(hash); node != kNoNode; node = nodes_[node].next) {
    if (nodes_[node].hash == hash) return Find(parent, hash, tokens);
  }
  const NodeId node = Take(parent, hash);
  nodes_[node].next = Bucket(hash);
  Bucket(hash) = node;
  ++nodes_[parent].children;
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<int64_t>(node) * block_tokens_);
  return node;
}

NodeId PrefixTree::Take(NodeId parent, const Hash128& hash) {
  NodeId node = unused_;
  if (node == kNoNode) {
    node = static_cast<NodeId>(nodes_.size());
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + block_tokens_);
    blocks_.resize(blocks_.size() + groups_, -1);
  } else {
    unused_ = nodes_[node].next;
  }
  nodes_[node] = Node{.hash = hash, .parent = parent, .live = true};
  ++live_;
  return node;
}

void PrefixTree::Unpin(NodeId node) {
  CHECK(nodes_[node].pins > 0, "node ", node);
  --nodes_[node].pins;
  Collect(node);
}

void PrefixTree::SetBlock(NodeId node, int32_t group, int32_t block) {
  CHECK(blocks_[Index(node, group)] < 0, "node ", node);
  blocks_[Index(node, group)] = block;
  ++nodes_[node].residents;
}

void PrefixTree::ClearBlock(NodeId node, int32_t group) {
  CHECK(blocks_[Index(node, group)] >= 0, "node ", node);
  blocks_[Index(node, group)] = -1;
  --nodes_[node].residents;
  Collect(node);
}

void PrefixTree::Collect(NodeId node) {
  while (node != kNoNode) {
    Node& dead = nodes_[node];
    if (dead.children > 0 || dead.residents > 0 || dead.pins > 0) return;
    const NodeId parent = dead.parent;
    if (parent == kNoNode) {
      const auto key = root_keys_.find(node);
      roots_.erase(key->second);
      root_keys_.erase(key);
    } else {
      NodeId* link = &Bucket(dead.hash);
      while (*link != node) link = &nodes_[*link].next;
      *link = dead.next;
      --nodes_[parent].children;
    }
    dead.live = false;
    dead.next = unused_;
    unused_ = node;
    --live_;
    node = parent;
  }
}

void PrefixTree::CheckInvariants() const {
  std::vector<int32_t> children(nodes_.size(), 0);
  int32_t live = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id) {
    const Node& node = nodes_[id];
    if (!node.live) continue;
    ++live;
    CHECK(node.children > 0 || node.residents > 0 || node.pins > 0, "node ", id, " is garbage");
    int32_t residents = 0;
    for (int32_t group = 0; group < groups_; ++group) residents += block(id, group) >= 0;
    CHECK(residents == node.residents, "node ", id, " has ", residents);
    if (node.parent == kNoNode) continue;
    CHECK(nodes_[node.parent].live, "node ", id, " lost its parent");
    ++children[node.parent];
    const auto tokens = std::span(tokens_).subspan(static_cast<size_t>(id) * block_tokens_,
                                                   static_cast<size_t>(block_tokens_));
    CHECK(Find(node.parent, node.hash, tokens) == id, "node ", id, " is not found");
  }
  CHECK(live == live_, "live=", live);
  for (NodeId id = 0; id < static_cast<NodeId>(nodes_.size()); ++id) {
    CHECK(!nodes_[id].live || children[id] == nodes_[id].children, "node ", id);
  }
}

}  // namespace sluice::blocks
