// Writes a GGUF v3 file: a layout first, then the bytes of its tensors in order. The file appears
// under its name at the end, complete, or not at all. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "files/atomic_file.h"
#include "files/gguf.h"

namespace sluice::files {

struct GgufTensorLayout {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first; the last is a multiple of the format's block

  uint64_t bytes() const;
};

struct GgufLayout {
  // As GgufFile::entries gives them; "general.alignment", where it stands, is `alignment`.
  std::vector<GgufEntry> metadata;
  uint64_t alignment = 32;
  std::vector<GgufTensorLayout> tensors;
};

// The bytes of an entry that holds a 32-bit integer without sign.
std::vector<std::byte> GgufU32(uint32_t value);

class GgufFileWriter {
 public:
  // Reserves the room of the whole file and writes all that stands before the data. Errors as
  // AtomicFile. REQUIRES: every type has a number in GGUF.
  static Result<std::unique_ptr<GgufFileWriter>> Create(const std::string& path, GgufLayout layout,
                                                        AtomicFile::Options options);

  // The size that the file will have.
  uint64_t size() const { return size_; }
  // The next bytes of the current tensor; after its last one the next tensor begins.
  // REQUIRES: they do not go beyond its end.
  Status Append(std::span<const std::byte> bytes);
  // REQUIRES: all tensors are complete.
  Status Finish();

 private:
  GgufFileWriter(std::unique_ptr<AtomicFile> file, GgufLayout layout, uint64_t size)
      : file_(std::move(file)), layout_(std::move(layout)), size_(size) {}

  const std::unique_ptr<AtomicFile> file_;
  const GgufLayout layout_;
  const uint64_t size_;
  size_t tensor_ = 0;  // the current one
  uint64_t done_ = 0;  // its bytes so far
};

}  // namespace sluice::files
