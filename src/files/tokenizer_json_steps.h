// The processing steps of a tokenizer.json: normalizers, pre-tokenizers, decoders and
// post-processors. Thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "files/tokenizer_data.h"

namespace sluice::files {

// Appends the steps of `json` (null, one step or a Sequence). `what` names the place in messages.
// kBadModel when a field has the wrong type.
Status ReadTextSteps(const Json& json, std::string_view what, std::vector<TextStep>* steps);

// Sets prefix_ids and suffix_ids from the post-processor `json`.
Status ReadPostProcessor(const Json& json, TokenizerData* data);

}  // namespace sluice::files
