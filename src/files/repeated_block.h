// A long range of memory that repeats a short one: only the short one takes memory. Immutable; any
// thread may read.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "sluice/status.h"

namespace sluice::files {

class RepeatedBlock {
 public:
  // At least `bytes` bytes that are `period` again and again. kIo when the system has no such
  // memory. REQUIRES: period's size is a multiple of 4096, and of the system's page size, and not
  // zero.
  static Result<std::unique_ptr<RepeatedBlock>> Make(std::span<const std::byte> period,
                                                     size_t bytes);
  ~RepeatedBlock();
  RepeatedBlock(const RepeatedBlock&) = delete;
  RepeatedBlock& operator=(const RepeatedBlock&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  RepeatedBlock(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* const data_;
  const size_t size_;
};

}  // namespace sluice::files
