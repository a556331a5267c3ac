// Any bytes as a safetensors file and as its index.
#include "files/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::files;
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  unsigned sum = 0;
  if (const auto tensors = ParseSafetensors(bytes); tensors.ok()) {
    for (const FileTensor& tensor : *tensors) {
      sum += std::to_integer<unsigned>(tensor.data.front());
      sum += std::to_integer<unsigned>(tensor.data.back());
    }
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), size);
  if (const auto index = ParseSafetensorsIndex(text); index.ok()) {
    sum += static_cast<unsigned>(index->size());
  }
  volatile unsigned keep = sum;
  static_cast<void>(keep);
  return 0;
}
