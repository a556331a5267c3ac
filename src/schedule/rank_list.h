// RankList: sequences in the policy's order. Step thread only; does not own them. A sorted array,
// because it is walked every step and changed rarely.
#pragma once

#include <algorithm>
#include <vector>

#include "schedule/sequence.h"

namespace sluice::schedule {

class RankList {
 public:
  static bool Before(const Sequence* a, const Sequence* b) {
    return a->rank != b->rank ? a->rank < b->rank : a->spec.id < b->spec.id;
  }

  void Insert(Sequence* sequence) {
    items_.insert(std::upper_bound(items_.begin(), items_.end(), sequence, Before), sequence);
  }
  // False when it is not in the list.
  bool Remove(const Sequence* sequence) {
    const auto it = std::lower_bound(items_.begin(), items_.end(), sequence, Before);
    if (it == items_.end() || *it != sequence) return false;
    items_.erase(it);
    return true;
  }

  void Reserve(size_t count) { items_.reserve(count); }
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  Sequence* operator[](size_t i) const { return items_[i]; }
  const std::vector<Sequence*>& items() const { return items_; }
  bool Sorted() const { return std::is_sorted(items_.begin(), items_.end(), Before); }

 private:
  std::vector<Sequence*> items_;
};

}  // namespace sluice::schedule
