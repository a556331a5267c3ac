// "quantization_config" of a Hugging Face folder: matrices in F8_E4M3 with scales, as the methods
// "fp8" (vLLM, transformers) and "compressed-tensors" (llm-compressor) write them. Which matrices
// are in F8, and what their scales cover, the tensors themselves say; lists of names in the config
// repeat it and are only checked for their form. Pure; any thread.
#pragma once

#include <optional>

#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Nothing where `config` has no such key. kBadModel with one sentence for another method, another
// number format, or scales that cover something else than a tensor, a row or 128 by 128.
Result<std::optional<F8Quantization>> ReadHfQuantization(const JsonFields& config);

}  // namespace sluice::files
