// The metadata of a GGUF file that is about its architecture, whose name stands before every key.
// Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/architectures.h"
#include "files/config_check.h"
#include "files/gguf.h"
#include "sluice/status.h"

namespace sluice::files {

// kBadModel where `value`, which is called so, is outside the range.
Status CheckGgufInt(std::string_view name, int64_t value, IntRange range);

// Each reads the key with the suffix and leaves *value alone where it is absent. kBadModel with one
// sentence that names the key, its value and what is legal. The file and the row of the table must
// outlive it.
class GgufFields {
 public:
  GgufFields(const GgufFile& file, const ArchitectureInfo& info);
  const GgufFile& file() const { return file_; }
  const ArchitectureInfo& info() const { return info_; }
  std::string Key(std::string_view suffix) const;

  Status Int(std::string_view suffix, IntRange range, int* value) const;
  // kBadModel where the key is absent.
  Status RequiredInt(std::string_view suffix, IntRange range, int* value) const;
  // An integer for all of the layers, or an array of one for each.
  Status LayerInts(std::string_view suffix, IntRange range, int layers,
                   std::vector<int>* values) const;
  // The same, which all of the layers have.
  Status UniformInt(std::string_view suffix, IntRange range, int layers, int* value) const;
  Status Real(std::string_view suffix, RealRange range, std::optional<float>* value) const;
  // As Real, where the file writes 0 for "none".
  Status Cap(std::string_view suffix, std::optional<float>* value) const;
  // As Real, where the file may also write 0 for "1".
  Status Factor(std::string_view suffix, float* value) const;

 private:
  const GgufFile& file_;
  const ArchitectureInfo& info_;
};

}  // namespace sluice::files
