#include "blocks/prefix_tree.h"

#include <gtest/gtest.h>

namespace sluice::blocks {
namespace {

using Tokens = std::vector<int32_t>;

TEST(PrefixTree, RootsOfDifferentKeysHaveDifferentHashes) {
  EXPECT_NE(RootHash("a"), RootHash("b"));
  EXPECT_NE(RootHash("a"), RootHash(std::string("a\0", 2)));
}

TEST(PrefixTree, FindsByParentHashAndTokens) {
  PrefixTree tree(1, 2, 8);
  const NodeId root = tree.PinRoot("key");
  const NodeId other_root = tree.PinRoot("other");
  const Tokens tokens = {5, 6};
  const Hash128 hash = BlockHash(tree.hash(root), tokens);
  const NodeId node = tree.Insert(root, hash, tokens);
  tree.SetBlock(node, 0, 3);
  EXPECT_EQ(tree.Find(root, hash, tokens), node);
  EXPECT_EQ(tree.Insert(root, hash, tokens), node);
  EXPECT_EQ(tree.Find(other_root, hash, tokens), kNoNode);
  EXPECT_EQ(tree.Find(root, BlockHash(tree.hash(other_root), tokens), tokens), kNoNode);
  tree.CheckInvariants();
}

// Whoever crafts a collision of the hash gets a miss, never another's block.
TEST(PrefixTree, AHashCollisionIsAMiss) {
  PrefixTree tree(1, 2, 8);
  const NodeId root = tree.PinRoot("key");
  const Hash128 hash{1, 2};
  const NodeId node = tree.Insert(root, hash, Tokens{5, 6});
  tree.SetBlock(node, 0, 0);
  EXPECT_EQ(tree.Find(root, hash, Tokens{5, 7}), kNoNode);
  EXPECT_EQ(tree.Insert(root, hash, Tokens{5, 7}), kNoNode);
  EXPECT_EQ(tree.Insert(node, hash, Tokens{5, 6}), kNoNode);
  EXPECT_EQ(tree.Find(root, hash, Tokens{5, 6}), node);
}

TEST(PrefixTree, ANodeLivesWhileSomethingHoldsIt) {
  PrefixTree tree(2, 1, 8);
  const NodeId root = tree.PinRoot("key");
  const NodeId a = tree.Insert(root, {1, 1}, Tokens{1});
  const NodeId b = tree.Insert(a, {2, 2}, Tokens{2});
  tree.SetBlock(a, 0, 0);
  tree.SetBlock(a, 1, 0);
  tree.SetBlock(b, 1, 1);
  tree.Unpin(root);
  tree.ClearBlock(a, 0);
  tree.ClearBlock(a, 1);
  EXPECT_EQ(tree.live_nodes(), 3);  // b hangs on a, a on the root
  EXPECT_EQ(tree.Find(root, {1, 1}, Tokens{1}), a);
  tree.Pin(b);
  tree.ClearBlock(b, 1);
  tree.CheckInvariants();
  EXPECT_EQ(tree.live_nodes(), 3);
  tree.Unpin(b);
  EXPECT_EQ(tree.live_nodes(), 0);
  tree.CheckInvariants();
  EXPECT_EQ(tree.Find(tree.PinRoot("key"), {1, 1}, Tokens{1}), kNoNode);
}

}  // namespace
}  // namespace sluice::blocks
