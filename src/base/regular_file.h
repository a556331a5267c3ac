// Regular files, opened so that nothing else that a path may name (a pipe that nobody writes to, a
// terminal, a device) can hold up the caller. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "sluice/status.h"

namespace sluice {

// Open for reading; closes it in the end.
class RegularFile {
 public:
  // kNotFound: no such path. kInvalidArgument: not a regular file. kIo: the system refuses.
  static Result<RegularFile> Open(const std::string& path);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  int fd() const { return fd_; }
  size_t size() const { return size_; }  // bytes, when it was opened
  // The descriptor, which is the caller's from here on.
  int Take();

 private:
  RegularFile(int fd, size_t size) : fd_(fd), size_(size) {}

  int fd_;
  size_t size_;
};

// All of a file. Errors as RegularFile::Open, and kTooLarge when it has more than `bytes_max`.
Result<std::string> ReadRegularFile(const std::string& path, size_t bytes_max);

// What a message says where `call` failed on `path` with `error` of errno: kNotFound or kIo.
Status FileError(const std::string& path, std::string_view call, int error);

}  // namespace sluice
