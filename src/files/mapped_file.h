// A regular file mapped read-only for its whole life, and whole small files read as text.
// Immutable; any thread may read. Reading what another process has cut off a mapped file raises
// SIGBUS, for whose handler the mappings are told (mapped_range.h): replace model files by
// renaming, never in place.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "files/mapped_range.h"
#include "sluice/status.h"

namespace sluice::files {

class MappedFile {
 public:
  // kNotFound: no such path. kIo: the system refuses. kBadModel: not a regular file, or empty.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Drops the resident pages that hold any of `range`, which is part of bytes(). Reading them again
  // reads the file.
  void Release(std::span<const std::byte> range) const;

  // A second, writable mapping of `range` (part of bytes(), not empty), which outlives this one.
  // Writing to it changes neither the file nor bytes(). nullptr when the system declines.
  std::shared_ptr<std::byte> MapPrivately(std::span<const std::byte> range) const;

 private:
  MappedFile(const std::string& path, std::span<const std::byte> bytes, int fd)
      : path_(path), bytes_(bytes), fd_(fd) {
    range_.emplace(bytes.data(), bytes.size(), path);
  }

  const std::string path_;
  const std::span<const std::byte> bytes_;
  const int fd_;  // of the file; owned
  std::optional<MappedRange> range_;
};

// The whole of a regular file. Errors as MappedFile::Open (an empty file is an empty text), and
// kBadModel when it has more than `bytes_max`.
Result<std::string> ReadTextFile(const std::string& path, size_t bytes_max);

}  // namespace sluice::files
