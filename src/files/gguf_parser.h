// Reads the bytes of a GGUF file into metadata and tensors, checking everything: no count, size or
// offset is used before it is known to fit the bytes. Pure and thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "files/gguf.h"
#include "files/tensor_source.h"
#include "sluice/status.h"

namespace sluice::files {

struct GgufContents {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufEntry> entries;  // the same, in the file's order
  uint64_t alignment = 0;
  std::vector<FileTensor> tensors;  // in the file's order; `data` points into the bytes parsed
};

// kBadModel with one sentence.
Result<GgufContents> ParseGguf(std::span<const std::byte> bytes);

}  // namespace sluice::files
