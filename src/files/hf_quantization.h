// "quantization_config" of a Hugging Face folder: matrices in F8_E4M3 with scales, as the methods
// "fp8" (vLLM, transformers), "compressed-tensors" (llm-compressor) and "modelopt" write them, in
// integers of 8 bits ("compressed-tensors"), in integers of 4 bits with scales of groups ("awq",
// "gptq", "compressed-tensors"), and in floats of 4 bits ("mxfp4", "modelopt",
// "compressed-tensors"). Which matrices are so, and what their scales cover, the tensors themselves
// say; lists of names in the config repeat it and are only checked for their form. Pure; any
// thread.
#pragma once

#include <optional>
#include <string_view>

#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Nothing where `config` has no such key or where it is about 4 bits or integers. kBadModel with
// one sentence for another method, another number format, or scales that cover something else than
// a tensor, a row or 128 by 128.
Result<std::optional<F8Quantization>> ReadHfQuantization(const JsonFields& config);

// The same for the text of ModelOpt's hf_quant_config.json; nothing where it is empty.
Result<std::optional<F8Quantization>> ReadModelOptConfig(std::string_view text);

}  // namespace sluice::files
