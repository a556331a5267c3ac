// RoPE of a config.json, as transformers 4 (rope_theta, rope_scaling, rope_local_base_freq) or 5
// (rope_parameters, which Gemma 3 gives per kind of layer) writes it.
#pragma once

#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Fills config->rope and, for Gemma 3, config->local_rope. REQUIRES: architecture, head_dim and
// context_length (max_position_embeddings as the file says it) are set. kBadModel with one
// sentence.
Status ReadHfRope(const JsonFields& fields, ModelConfig* config);

}  // namespace sluice::files
