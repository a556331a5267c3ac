#include "files/mapped_range.h"

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/visible.h"

namespace sluice::files {

// Entries stay in their list, which a handler may walk at any time, and are used again.
struct MappedRange::Entry {
  std::string path;                  // changes only while `end` is 0
  std::atomic<uintptr_t> begin = 0;  // changes only while `end` is 0
  std::atomic<uintptr_t> end = 0;    // 0: the entry is free
  Entry* next = nullptr;
};

namespace {

std::mutex list_mutex;  // for those who change the list

}  // namespace

std::atomic<MappedRange::Entry*> MappedRange::first_ = nullptr;

MappedRange::MappedRange(const void* data, size_t bytes, const std::string& path) {
  const std::lock_guard lock(list_mutex);
  entry_ = first_;
  while (entry_ != nullptr && entry_->end != 0) entry_ = entry_->next;
  const bool added = entry_ == nullptr;
  if (added) entry_ = new Entry;
  entry_->path = Visible(path);
  entry_->begin = reinterpret_cast<uintptr_t>(data);
  entry_->end = reinterpret_cast<uintptr_t>(data) + bytes;
  if (!added) return;
  entry_->next = first_;
  first_ = entry_;
}

MappedRange::~MappedRange() {
  const std::lock_guard lock(list_mutex);
  entry_->end = 0;
}

const char* MappedRange::FileAt(const void* address) {
  const auto place = reinterpret_cast<uintptr_t>(address);
  for (const Entry* entry = first_; entry != nullptr; entry = entry->next) {
    if (place < entry->end && place >= entry->begin) return entry->path.c_str();
  }
  return nullptr;
}

}  // namespace sluice::files
