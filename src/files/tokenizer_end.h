// Which tokens end an answer. Thread-safe.
#pragma once

#include <initializer_list>
#include <optional>

#include "files/tokenizer_data.h"

namespace sluice::files {

// Sets end_of_generation_ids: the ids that the file declares and the added tokens that end an
// answer in published chat models by their name.
void FindEndOfGeneration(std::initializer_list<std::optional<int32_t>> declared,
                         TokenizerData* data);

}  // namespace sluice::files
