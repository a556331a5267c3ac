// Device memory that the ops of one stream share, each for the time of its call. It belongs to the
// stream, and so to one thread at a time.
#pragma once

#include <functional>
#include <utility>

#include "base/str_cat.h"
#include "device/device.h"

namespace sluice::device {

// Invariant: once reserved, or once captured work may hold an address in it, it neither grows nor
// moves. Before that a call that needs more gets a larger piece in place of the old one.
class ScratchMemory {
 public:
  explicit ScratchMemory(std::function<Result<Buffer>(size_t)> allocate)
      : allocate_(std::move(allocate)) {}

  // Takes all that any call will ask for. An error of the allocation is returned as it is.
  Status Reserve(size_t bytes) {
    SLUICE_RETURN_IF_ERROR(Take(bytes).status());
    Fix();
    return OkStatus();
  }
  void Fix() { fixed_ = true; }
  // Valid until the next call. kFailedPrecondition where it would have to grow and may not.
  Result<std::byte*> Take(size_t bytes) {
    if (bytes <= buffer_.bytes()) return buffer_.data();
    if (fixed_) {
      return Status(StatusCode::kFailedPrecondition,
                    StrCat("scratch memory would grow from ", buffer_.bytes(), " to ", bytes,
                           " bytes after it was reserved or a graph is captured; reserve what the "
                           "largest step needs"));
    }
    buffer_ = Buffer();  // first, so that both are never there at once
    SLUICE_ASSIGN_OR_RETURN(buffer_, allocate_(bytes));
    return buffer_.data();
  }
  size_t bytes() const { return buffer_.bytes(); }

 private:
  const std::function<Result<Buffer>(size_t)> allocate_;
  Buffer buffer_;
  bool fixed_ = false;
};

}  // namespace sluice::device
