// A file of trace events (the JSON array form) that the engines of a process share: each is a
// process of its own in the picture, called after its model. Thread-safe.
//
// Invariants: (1) while nobody takes part, the file is a whole JSON array; (2) what takes part has
// an open file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/status.h"

namespace sluice::engine {

class TraceFile {
 public:
  // That of a path; the same for every spelling of it. It lives as long as the program.
  static TraceFile& At(const std::string& path);
  // One in memory, which Text gives.
  static std::unique_ptr<TraceFile> InMemory();
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Takes part as a process of that name, and gives its number. `goes_on`: behind what this program
  // has written to the file before; otherwise, and where nothing was, the file is made or emptied,
  // unless somebody takes part in it. The file takes `bytes_max` at most, whoever writes. kIo: it
  // cannot be written.
  Result<int> Join(std::string_view process, bool goes_on, int64_t bytes_max);
  // REQUIRES for the others: who calls takes part.
  void Leave();
  // An event, as JSON. What does not fit is dropped, which is logged once.
  void Add(std::string_view event);
  void Flush();

  // REQUIRES: it is in memory, and nobody takes part.
  std::string Text() const { return {bytes_, size_}; }

 private:
  explicit TraceFile(std::string path) : path_(std::move(path)) {}
  // The others are for who holds mutex_.
  Status Open(bool goes_on);
  void Write(std::string_view text);

  const std::string path_;  // empty: in memory
  std::mutex mutex_;        // guards the rest
  std::FILE* file_ = nullptr;
  int taking_part_ = 0;
  int processes_ = 0;  // of the file, those that have left included
  int64_t written_ = 0, bytes_max_ = 0;
  bool full_ = false;
  char* bytes_ = nullptr;  // as open_memstream fills it; they stand when the file is closed
  size_t size_ = 0;
};

}  // namespace sluice::engine
