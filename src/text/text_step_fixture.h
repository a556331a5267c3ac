// For tests: the steps of normalizers and pre-tokenizers, as a tokenizer's file gives them.
#pragma once

#include <string>
#include <utility>

#include "files/tokenizer_data.h"

namespace sluice::text {

inline files::TextStep Step(std::string type) {
  files::TextStep step;
  step.type = std::move(type);
  return step;
}

inline files::TextStep Replace(std::string pattern, std::string content, bool regex = false) {
  files::TextStep step = Step("Replace");
  step.pattern = std::move(pattern);
  step.pattern_is_regex = regex;
  step.content = std::move(content);
  return step;
}

}  // namespace sluice::text
