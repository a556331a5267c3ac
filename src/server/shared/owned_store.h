// What clients may ask for again, bounded in bytes and age: the oldest go first, and those of an
// owner who fills more than half of it before others'. Thread-safe.
//
// Invariants: (1) the bytes of all entries, and of each owner's, add up to what is counted; (2)
// each entry's id stands in the order once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/seeded_hash.h"

namespace sluice::server {

// `Item` has a function bytes(), which does not change: what it takes, about.
template <class Item>
class OwnedStore {
 public:
  OwnedStore(int64_t bytes_max, int64_t age_us_max)
      : bytes_max_(bytes_max), age_us_max_(age_us_max) {}

  // `owner`: of the API key, the only one that finds it again; empty where no key is asked for.
  // False, and it is not kept: it is larger than the store.
  bool Put(const std::string& owner, const std::string& id, Item item, int64_t now_us) {
    auto kept = std::make_shared<const Item>(std::move(item));
    const int64_t bytes = kEntryBytes + kept->bytes();
    std::lock_guard lock(mutex_);
    if (bytes > bytes_max_) return false;
    DropOld(now_us);
    while (bytes_ + bytes > bytes_max_) {
      const auto own = owners_.find(owner);
      const bool greedy = own != owners_.end() && own->second + bytes > bytes_max_ / 2;
      DropOldestOf(greedy ? &owner : nullptr);
    }
    entries_[id] = {owner, std::move(kept), bytes, now_us};
    order_.push_back(id);
    owners_[owner] += bytes;
    bytes_ += bytes;
    return true;
  }

  // Null: there is none of that owner, or it is too old.
  std::shared_ptr<const Item> Find(const std::string& owner, const std::string& id,
                                   int64_t now_us) {
    std::lock_guard lock(mutex_);
    DropOld(now_us);
    const auto found = entries_.find(id);
    return found == entries_.end() || found->second.owner != owner ? nullptr : found->second.item;
  }

  // The owner's, newest first.
  std::vector<std::shared_ptr<const Item>> List(const std::string& owner, int64_t now_us) {
    std::lock_guard lock(mutex_);
    DropOld(now_us);
    std::vector<std::shared_ptr<const Item>> items;
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Entry& entry = entries_.at(*id);
      if (entry.owner == owner) items.push_back(entry.item);
    }
    return items;
  }

  // Whether there was one.
  bool Remove(const std::string& owner, const std::string& id, int64_t now_us) {
    std::lock_guard lock(mutex_);
    DropOld(now_us);
    const auto found = entries_.find(id);
    if (found == entries_.end() || found->second.owner != owner) return false;
    order_.erase(std::find(order_.begin(), order_.end(), id));
    Drop(found);
    return true;
  }

  int64_t bytes() const {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  // What an entry takes beside its item, about.
  static constexpr int64_t kEntryBytes = 512;

  struct Entry {
    std::string owner;
    std::shared_ptr<const Item> item;
    int64_t bytes = 0;
    int64_t put_us = 0;
  };
  using Entries = std::unordered_map<std::string, Entry, SeededTextHash>;

  // REQUIRES for all: mutex_ is held.
  void Drop(typename Entries::iterator entry) {
    const auto owner = owners_.find(entry->second.owner);
    owner->second -= entry->second.bytes;
    if (owner->second == 0) owners_.erase(owner);
    bytes_ -= entry->second.bytes;
    entries_.erase(entry);
  }
  void DropOld(int64_t now_us) {
    while (!order_.empty() && now_us - entries_.at(order_.front()).put_us > age_us_max_) {
      Drop(entries_.find(order_.front()));
      order_.pop_front();
    }
  }
  void DropOldestOf(const std::string* owner) {  // null: of any
    const auto oldest = std::find_if(order_.begin(), order_.end(), [&](const std::string& id) {
      return owner == nullptr || entries_.at(id).owner == *owner;
    });
    Drop(entries_.find(*oldest));
    order_.erase(oldest);
  }

  const int64_t bytes_max_, age_us_max_;
  mutable std::mutex mutex_;  // guards the rest
  Entries entries_;
  std::deque<std::string> order_;                                    // ids, oldest first
  std::unordered_map<std::string, int64_t, SeededTextHash> owners_;  // bytes of each
  int64_t bytes_ = 0;
};

// A name that nobody can guess: `prefix` and 32 hexadecimal digits of the system's randomness.
std::string DrawPrivateId(std::string_view prefix);

}  // namespace sluice::server
