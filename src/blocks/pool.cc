#include "blocks/pool.h"

#include "base/check.h"

namespace sluice::blocks {

BlockPool::BlockPool(int32_t num_blocks) : blocks_(num_blocks) {
  for (int32_t block = 0; block < num_blocks; ++block) PushBack(&free_, block);
}

int32_t BlockPool::Allocate(int32_t* evicted_node) {
  CHECK(available() > 0, "size=", size());
  List* list = free_.count > 0 ? &free_ : &cached_;
  const int32_t id = list->head;
  Remove(list, id);
  *evicted_node = blocks_[id].node;
  blocks_[id].node = kNone;
  blocks_[id].references = 1;
  return id;
}

void BlockPool::Ref(int32_t id) {
  Block& block = blocks_[id];
  if (block.references == 0) {
    CHECK(block.node != kNone, "block ", id, " is free");
    Remove(&cached_, id);
  }
  ++block.references;
}

bool BlockPool::Unref(int32_t id) {
  Block& block = blocks_[id];
  CHECK(block.references > 0, "block ", id);
  if (--block.references > 0) return false;
  if (block.node == kNone) {
    PushFront(&free_, id);
  } else {
    PushBack(&cached_, id);
  }
  return true;
}

void BlockPool::SetNode(int32_t id, int32_t node) {
  Block& block = blocks_[id];
  CHECK(node == kNone || (block.node == kNone && block.references > 0), "block ", id);
  if (block.references == 0 && block.node != kNone) {
    Remove(&cached_, id);
    PushFront(&free_, id);
  }
  block.node = node;
}

void BlockPool::PushBack(List* list, int32_t id) {
  blocks_[id].previous = list->tail;
  blocks_[id].next = kNone;
  if (list->tail != kNone) blocks_[list->tail].next = id;
  if (list->head == kNone) list->head = id;
  list->tail = id;
  ++list->count;
}

void BlockPool::PushFront(List* list, int32_t id) {
  blocks_[id].previous = kNone;
  blocks_[id].next = list->head;
  if (list->head != kNone) blocks_[list->head].previous = id;
  if (list->tail == kNone) list->tail = id;
  list->head = id;
  ++list->count;
}

void BlockPool::Remove(List* list, int32_t id) {
  const Block& block = blocks_[id];
  if (block.previous != kNone) blocks_[block.previous].next = block.next;
  if (block.next != kNone) blocks_[block.next].previous = block.previous;
  if (list->head == id) list->head = block.next;
  if (list->tail == id) list->tail = block.previous;
  --list->count;
}

void BlockPool::CheckInvariants() const {
  std::vector<bool> listed(blocks_.size(), false);
  const auto walk = [&](const List& list, bool has_node) {
    int32_t count = 0, previous = kNone;
    for (int32_t id = list.head; id != kNone; id = blocks_[id].next) {
      CHECK(!listed[id], "block ", id, " is listed twice");
      listed[id] = true;
      CHECK(blocks_[id].previous == previous && blocks_[id].references == 0, "block ", id);
      CHECK((blocks_[id].node != kNone) == has_node, "block ", id);
      previous = id;
      ++count;
    }
    CHECK(count == list.count && list.tail == previous, "count=", count);
  };
  walk(free_, false);
  walk(cached_, true);
  for (int32_t id = 0; id < size(); ++id) {
    CHECK(listed[id] == (blocks_[id].references == 0), "block ", id);
  }
}

}  // namespace sluice::blocks
