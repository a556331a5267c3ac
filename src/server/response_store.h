// The answers of /v1/responses that clients may ask for again or go on from, bounded in bytes and
// age: the oldest go first, and those of an owner who fills more than half of it before others'.
// Thread-safe.
//
// Invariants: (1) the bytes of all entries, and of each owner's, add up to what is counted; (2)
// each entry's id stands in the order once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/seeded_hash.h"

namespace sluice::server {

struct StoredResponse {
  std::string body;      // the response, as it was answered
  std::string messages;  // the conversation up to its answer, as OpenAI's chat messages
};

class ResponseStore {
 public:
  explicit ResponseStore(int64_t bytes_max = 64 << 20,
                         int64_t age_us_max = int64_t{24} * 3600 * 1'000'000)
      : bytes_max_(bytes_max), age_us_max_(age_us_max) {}

  // `owner`: of the API key, the only one that finds it again; empty where no key is asked for.
  // One that is larger than the store is not kept.
  void Put(const std::string& owner, const std::string& id, StoredResponse response,
           int64_t now_us);
  // Null: there is none of that owner, or it is too old.
  std::shared_ptr<const StoredResponse> Find(const std::string& owner, const std::string& id,
                                             int64_t now_us);
  // Whether there was one.
  bool Remove(const std::string& owner, const std::string& id, int64_t now_us);

  int64_t bytes() const;

 private:
  struct Entry {
    std::string owner;
    std::shared_ptr<const StoredResponse> response;
    int64_t bytes = 0;
    int64_t put_us = 0;
  };
  using Entries = std::unordered_map<std::string, Entry, SeededTextHash>;

  // REQUIRES: mutex_ is held.
  void Drop(Entries::iterator entry);
  void DropOld(int64_t now_us);
  void DropOldestOf(const std::string* owner);  // null: of any

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
