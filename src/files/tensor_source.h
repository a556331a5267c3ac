// Tensors of a model as they lie in files: names, types, shapes and byte ranges, all checked when
// the file was opened. Immutable after opening; any thread may read. The bytes stay valid while the
// source lives (they are mapped, not read).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "sluice/status.h"

namespace sluice::files {

struct FileTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t>
      shape;  // outermost first: [rows, columns]; at most 4 dims, each >= 1; a scalar has none
  // Exactly the bytes that dtype and shape ask for. Aligned to 8 in GGUF files; in safetensors they
  // may begin at any byte.
  std::span<const std::byte> data;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual const std::vector<FileTensor>& tensors() const = 0;
  // nullptr when there is none of that name.
  virtual const FileTensor* Find(std::string_view name) const = 0;
  // Tells the system that the mapped pages of this tensor are not needed any more (its bytes were
  // repacked). Reading them again is allowed and reads the file.
  virtual void Release(const FileTensor& tensor) const = 0;
  // The tensor's bytes as memory of the caller's, which outlives the source: pages come from the
  // file when they are first read, and what is written stays in this process. nullptr where that
  // can't be had; then copy `data`.
  virtual std::shared_ptr<std::byte> MapPrivately(const FileTensor&) const { return nullptr; }
};

}  // namespace sluice::files
