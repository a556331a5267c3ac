// GGUF v2 and v3 (little endian), memory-mapped. Everything is checked in Open: after it, no
// offset, count or size of the file can lead outside the mapping. Format: docs/gguf.md of
// ggml-org/ggml.
#pragma once

#include <map>
#include <optional>
#include <variant>

#include "files/tensor_source.h"

namespace sluice::files {

// One metadata value. Integers of every width arrive as int64_t or uint64_t, floats as double.
// Texts of an array lie in the file's bytes and live as long as its GgufFile.
struct GgufValue {
  using Array = std::variant<std::vector<int64_t>, std::vector<double>,
                             std::vector<std::string_view>, std::vector<bool>>;
  std::variant<bool, int64_t, uint64_t, double, std::string, Array> value;
};

// One metadata value as a file has it: what a writer copies without losing its type.
struct GgufEntry {
  std::string key;
  std::span<const std::byte> bytes;  // the number of the type, then the value
};

class GgufFile : public TensorSource {
 public:
  // kNotFound or kIo when the path cannot be read, kBadModel when it is malformed. A model in
  // several files is opened by the name of the first (gguf_parts.h).
  static Result<std::shared_ptr<const GgufFile>> Open(const std::string& path);
  // The same from bytes that the caller keeps alive, aligned to 8; `name` stands in messages.
  static Result<std::shared_ptr<const GgufFile>> FromMemory(std::span<const std::byte> bytes,
                                                            const std::string& name);

  virtual const std::map<std::string, GgufValue, std::less<>>& metadata() const = 0;
  // In the file's order; their bytes live as long as those of tensors.
  virtual const std::vector<GgufEntry>& entries() const = 0;
  // Of the tensors' data, in bytes.
  virtual uint64_t alignment() const = 0;
  // Typed look-ups: nothing when the key is absent; kBadModel when it has another type.
  virtual Result<std::optional<int64_t>> Integer(std::string_view key) const = 0;
  virtual Result<std::optional<double>> Number(std::string_view key) const = 0;
  virtual Result<std::optional<bool>> Boolean(std::string_view key) const = 0;
  virtual Result<std::optional<std::string>> String(std::string_view key) const = 0;
};

}  // namespace sluice::files
