// What Gemma 4's config.json says in words of its own. Pure.
#pragma once

#include "files/json_fields.h"
#include "files/model_config.h"

namespace sluice::files {

// Heads of the layers that see everything, what these rotate, and experts beside the dense part.
// Refuses what is not supported: embeddings for each layer, and layers that read the KV of others.
// REQUIRES: `config` has the layers, the heads of those that see a window, and RoPE as
// "rope_parameters" tell.
Status ReadHfGemma4(const JsonFields& fields, ModelConfig* config);

}  // namespace sluice::files
