// Any bytes as a safetensors file and as its index.
#include "files/safetensors.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include "base/fuzz_target.h"

void sluice::FuzzInput(std::string_view input) {
  using namespace sluice::files;
  std::vector<std::byte> bytes(input.size());
  if (!input.empty()) std::memcpy(bytes.data(), input.data(), input.size());
  unsigned sum = 0;
  if (const auto tensors = ParseSafetensors(bytes); tensors.ok()) {
    for (const FileTensor& tensor : *tensors) {
      sum += std::to_integer<unsigned>(tensor.data.front());
      sum += std::to_integer<unsigned>(tensor.data.back());
    }
  }
  if (const auto index = ParseSafetensorsIndex(input); index.ok()) {
    sum += static_cast<unsigned>(index->size());
  }
  volatile unsigned keep = sum;
  static_cast<void>(keep);
}
