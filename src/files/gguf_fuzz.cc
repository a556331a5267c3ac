// Any bytes as a GGUF file: parsed, looked up, and read as a model's config.
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/fuzz_target.h"
#include "files/gguf.h"
#include "files/model_config.h"

void sluice::FuzzInput(std::string_view input) {
  using namespace sluice::files;
  // A copy of its own size, so that the sanitizer sees a read past the end; 8-aligned as a mapping.
  std::vector<std::byte> bytes(input.size());
  if (!input.empty()) std::memcpy(bytes.data(), input.data(), input.size());
  const auto opened = GgufFile::FromMemory(bytes, "fuzz.gguf");
  if (!opened.ok()) return;
  const GgufFile& file = **opened;
  unsigned sum = 0;
  for (const FileTensor& tensor : file.tensors()) {
    CHECK(file.Find(tensor.name) == &tensor, tensor.name);
    sum += std::to_integer<unsigned>(tensor.data.front());
    sum += std::to_integer<unsigned>(tensor.data.back());
  }
  for (const auto& [key, value] : file.metadata()) {
    sum += static_cast<unsigned>(file.Integer(key).ok() + file.Number(key).ok() +
                                 file.Boolean(key).ok() + file.String(key).ok());
  }
  const auto config = ConfigFromGguf(file);
  if (config.ok()) sum += static_cast<unsigned>(config->layers.size());
  const auto defaults = GenerationDefaultsFromGguf(file);
  if (defaults.ok()) sum += defaults->sampling.top_k.has_value();
  volatile unsigned keep = sum;
  static_cast<void>(keep);
}
