// The part of GGUF's metadata that is about RoPE. Any thread.
#pragma once

#include "files/gguf_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Fills config->rope, and lengthens the context as it says. REQUIRES: sizes are read.
Status ReadGgufRope(const GgufFields& fields, ModelConfig* config);
// Fills config->local_rope, which layers that see a window use. REQUIRES: layers are read.
Status ReadGgufLocalRope(const GgufFields& fields, ModelConfig* config);

}  // namespace sluice::files
