// The part of GGUF's metadata that is about layers of Mamba or Mamba-2. Any thread.
#pragma once

#include "files/gguf_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Fills config->linear, and says which layers are of Mamba: all of them, or those without KV
// heads. Errors name the key. REQUIRES: sizes are read, and there is a LayerConfig for each layer.
Status ReadGgufMamba(const GgufFields& fields, ModelConfig* config);

}  // namespace sluice::files
