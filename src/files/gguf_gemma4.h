// The part of GGUF's metadata that is about Gemma 4 alone. Any thread.
#pragma once

#include "files/gguf_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Heads, feed-forward parts and KV of each layer, and what layers are given of a token. REQUIRES:
// sizes, RoPE and the kinds of layers are read; config->head_dim is that of the layers that see
// everything.
Status ReadGgufGemma4(const GgufFields& fields, ModelConfig* config);

}  // namespace sluice::files
