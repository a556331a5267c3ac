// A regular file mapped read-only for its whole life, and whole small files read as text.
// Immutable; any thread may read. A file that another process shortens while it is mapped ends this
// process with SIGBUS: replace model files by renaming, never in place.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "sluice/status.h"

namespace sluice::files {

class MappedFile {
 public:
  // kNotFound: no such path. kIo: not a regular file, or the system refuses. kBadModel: empty.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Drops the resident pages that lie wholly inside `range`, which is part of bytes(). Reading them
  // again reads the file.
  void Release(std::span<const std::byte> range) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  const std::span<const std::byte> bytes_;
};

// The whole of a regular file. Errors as MappedFile::Open (an empty file is an empty text), and
// kBadModel when it has more than `bytes_max`.
Result<std::string> ReadTextFile(const std::string& path, size_t bytes_max);

}  // namespace sluice::files
