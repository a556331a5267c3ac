#include "files/file_type.h"

#include <algorithm>
#include <map>
#include <optional>

#include "files/gguf.h"

namespace sluice::files {
namespace {

// Names with two parts, as Q4_K_M and Q2_K, stand for several formats; the others say less than the
// tensors, and converters are careless with them.
bool IsMixture(std::string_view name) { return name.find("_K") != std::string_view::npos; }

std::string MainFormat(const TensorSource& tensors) {
  std::map<std::string_view, int64_t> elements;
  for (const FileTensor& tensor : tensors.tensors()) {
    int64_t count = 1;
    for (const int64_t dim : tensor.shape) count *= dim;
    elements[Name(tensor.dtype)] += count;
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? std::string() : std::string(most->first);
}

}  // namespace

std::string FileTypeOf(const TensorSource& tensors) {
  if (const auto* gguf = dynamic_cast<const GgufFile*>(&tensors)) {
    const auto number = gguf->Integer("general.file_type");
    if (number.ok() && *number && **number >= 0 && **number <= UINT32_MAX) {
      const std::string_view name = GgufFileTypeName(static_cast<uint32_t>(**number));
      if (IsMixture(name)) return std::string(name);
    }
  }
  return MainFormat(tensors);
}

}  // namespace sluice::files
