#include "server/response_store.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/check.h"

namespace sluice::server {
namespace {

// What an entry takes beside its texts, about.
constexpr int64_t kEntryBytes = 512;

}  // namespace

void ResponseStore::Put(const std::string& owner, const std::string& id, StoredResponse response,
                        int64_t now_us) {
  const int64_t bytes =
      kEntryBytes + static_cast<int64_t>(response.body.size() + response.messages.size());
  std::lock_guard lock(mutex_);
  if (bytes > bytes_max_) return;
  DropOld(now_us);
  while (bytes_ + bytes > bytes_max_) {
    const auto own = owners_.find(owner);
    const bool greedy = own != owners_.end() && own->second + bytes > bytes_max_ / 2;
    DropOldestOf(greedy ? &owner : nullptr);
  }
  entries_[id] = {owner, std::make_shared<const StoredResponse>(std::move(response)), bytes,
                  now_us};
  order_.push_back(id);
  owners_[owner] += bytes;
  bytes_ += bytes;
}

std::shared_ptr<const StoredResponse> ResponseStore::Find(const std::string& owner,
                                                          const std::string& id, int64_t now_us) {
  std::lock_guard lock(mutex_);
  DropOld(now_us);
  const auto found = entries_.find(id);
  return found == entries_.end() || found->second.owner != owner ? nullptr : found->second.response;
}

bool ResponseStore::Remove(const std::string& owner, const std::string& id, int64_t now_us) {
  std::lock_guard lock(mutex_);
  DropOld(now_us);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.owner != owner) return false;
  order_.erase(std::find(order_.begin(), order_.end(), id));
  Drop(found);
  return true;
}

int64_t ResponseStore::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseStore::Drop(Entries::iterator entry) {
  const auto owner = owners_.find(entry->second.owner);
  owner->second -= entry->second.bytes;
  if (owner->second == 0) owners_.erase(owner);
  bytes_ -= entry->second.bytes;
  entries_.erase(entry);
}

void ResponseStore::DropOld(int64_t now_us) {
  while (!order_.empty() && now_us - entries_.at(order_.front()).put_us > age_us_max_) {
    Drop(entries_.find(order_.front()));
    order_.pop_front();
  }
}

void ResponseStore::DropOldestOf(const std::string* owner) {
  const auto oldest = std::find_if(order_.begin(), order_.end(), [&](const std::string& id) {
    return owner == nullptr || entries_.at(id).owner == *owner;
  });
  Drop(entries_.find(*oldest));
  order_.erase(oldest);
}

std::string DrawPrivateId(std::string_view prefix) {
  std::array<unsigned char, 16> bytes;
  CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1,
        "the system gave no randomness");
  std::string id(prefix);
  for (const unsigned char byte : bytes) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", byte);
    id += hex;
  }
  return id;
}

}  // namespace sluice::server
