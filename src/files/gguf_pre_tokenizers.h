// The pre-tokenizers that GGUF files name, as the steps of the tokenizer.json that their models
// were published with. Thread-safe.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "files/tokenizer_data.h"

namespace sluice::files {

struct GgufPreTokenizer {
  std::vector<TextStep> normalizers;
  std::vector<TextStep> pre_tokenizers;
  bool ignore_merges = false;
  bool adds_bos = false;  // when the file does not say
};

// `name` is tokenizer.ggml.pre, or empty or "default" where `architecture` decides (GPT-2's if it
// says nothing). Nothing when the name is not known.
std::optional<GgufPreTokenizer> FindGgufPreTokenizer(std::string_view name,
                                                     std::string_view architecture);

}  // namespace sluice::files
