// The part of GGUF's metadata that is about Gemma 3n alone. Any thread.
#pragma once

#include "files/gguf_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Residual streams, Laurel, sparse gates, what layers are given of a token, and whose KV they read.
// REQUIRES: sizes, RoPE and the kinds of layers are read.
Status ReadGgufGemma3n(const GgufFields& fields, ModelConfig* config);

}  // namespace sluice::files
