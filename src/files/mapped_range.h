// Which addresses are bytes of which file, so that a handler of SIGBUS can name the file that was
// shortened while it was mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

namespace sluice::files {

// Tells of one mapping for its life, which ends before the mapping does. Any thread.
class MappedRange {
 public:
  MappedRange(const void* data, size_t bytes, const std::string& path);
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  // The path of the file at `address`, ready to be shown (base/visible.h); nullptr where no file is
  // mapped. Safe in a signal handler. Valid while the range lives.
  static const char* FileAt(const void* address);

 private:
  struct Entry;
  static std::atomic<Entry*> first_;

  Entry* entry_;
};

}  // namespace sluice::files
