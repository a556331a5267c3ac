// BlockPool: the cache blocks of one layer group. Step thread only. It owns ids, never bytes.
//
// Invariants (CheckInvariants):
//   1. Every block is in exactly one of: the free list, the cached list (no reference, content
//      still known to the prefix tree), referenced (count > 0).
//   2. free() + cached() + referenced() == size().
//   3. A block on the free list has no node; a block on the cached list has one.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::blocks {

class BlockPool {
 public:
  static constexpr int32_t kNone = -1;

  explicit BlockPool(int32_t num_blocks);

  int32_t size() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t free() const { return free_.count; }
  int32_t cached() const { return cached_.count; }
  int32_t available() const { return free_.count + cached_.count; }
  int32_t referenced() const { return size() - available(); }
  int32_t references(int32_t block) const { return blocks_[block].references; }
  int32_t node(int32_t block) const { return blocks_[block].node; }

  // Takes a block with one reference: the free one that was used last, whose memory the system has
  // given already and the caches may hold; else the least recently used cached one, whose node is
  // then returned in *evicted_node (kNone otherwise); the caller tells the prefix tree.
  // REQUIRES: available() > 0.
  int32_t Allocate(int32_t* evicted_node);
  // One more reference; takes the block off the cached list.
  void Ref(int32_t block);
  // One reference fewer. At zero the block goes to the cached list (most recently used end) when it
  // has a node, else to the free list. Returns whether it reached zero.
  bool Unref(int32_t block);
  // Binds the content of a referenced block to a node of the prefix tree, or unbinds it with kNone;
  // a cached block that is unbound becomes free.
  void SetNode(int32_t block, int32_t node);
  // The next block that Allocate would evict, or kNone.
  int32_t LeastRecentlyUsed() const { return cached_.head; }

  // Calls visit(first, count) for the free blocks, by runs of ids that follow one another.
  template <class Visit>
  void ForEachFreeRun(const Visit& visit) const {
    const auto is_free = [&](int32_t id) {
      return blocks_[id].references == 0 && blocks_[id].node == kNone;
    };
    for (int32_t first = 0, end = 0; first < size(); first = end + 1) {
      for (end = first; end < size() && is_free(end);) ++end;
      if (end > first) visit(first, end - first);
    }
  }

  void CheckInvariants() const;

 private:
  struct Block {
    int32_t references = 0;
    int32_t node = kNone;
    int32_t previous = kNone, next = kNone;  // within its list
  };
  struct List {
    int32_t head = kNone, tail = kNone, count = 0;
  };
  void PushBack(List* list, int32_t block);
  void PushFront(List* list, int32_t block);
  void Remove(List* list, int32_t block);

  std::vector<Block> blocks_;
  List free_, cached_;
};

}  // namespace sluice::blocks
