// "quantization_config" of a Hugging Face folder: matrices in F8_E4M3 with scales, as the methods
// "fp8" (vLLM, transformers) and "compressed-tensors" (llm-compressor) write them, and in integers
// of 4 bits with scales of groups, as "awq", "gptq" and "compressed-tensors" do. Which matrices are
// so, and what their scales cover, the tensors themselves say; lists of names in the config repeat
// it and are only checked for their form. Pure; any thread.
#pragma once

#include <optional>

#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Nothing where `config` has no such key or where it is about 4 bits. kBadModel with one sentence
// for another method, another number format, or scales that cover something else than a tensor, a
// row or 128 by 128.
Result<std::optional<F8Quantization>> ReadHfQuantization(const JsonFields& config);

}  // namespace sluice::files
