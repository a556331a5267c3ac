// Any bytes as PyTorch's file of weights, and as the pickle in one.
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/fuzz_target.h"
#include "files/pickled_tensors.h"
#include "files/pytorch_file.h"

void sluice::FuzzInput(std::string_view input) {
  using namespace sluice::files;
  // A copy of its own size, so that the sanitizer sees a read past the end.
  std::vector<std::byte> bytes(input.size());
  if (!input.empty()) std::memcpy(bytes.data(), input.data(), input.size());
  unsigned sum = 0;
  const auto tensors = ParsePytorch(bytes);
  if (tensors.ok()) {
    for (const FileTensor& tensor : *tensors) {
      if (tensor.data.empty()) continue;
      sum += std::to_integer<unsigned>(tensor.data.front());
      sum += std::to_integer<unsigned>(tensor.data.back());
    }
  }
  const auto pickled = ReadPickledTensors(bytes);
  if (pickled.ok()) sum += static_cast<unsigned>(pickled->size());
  volatile unsigned keep = sum;
  static_cast<void>(keep);
}
