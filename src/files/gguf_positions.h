// The part of GGUF's metadata that is about how attention knows positions, other than RoPE. Any
// thread.
#pragma once

#include "files/gguf_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// ALiBi, tables of positions, LayerRule::kPeriodicChunks, and refusals of what stands beside them.
// REQUIRES: sizes, layers and experts are read.
Status ReadGgufPositions(const GgufFields& fields, ModelConfig* config);

}  // namespace sluice::files
