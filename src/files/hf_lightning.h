// The part of config.json that is about layers of lightning attention (MiniMax). Any thread.
#pragma once

#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Fills config->linear, and what becomes of the residual stream in each layer. Errors name the key.
// REQUIRES: heads and activation are read, and each layer's kind is known.
Status ReadHfLightning(const JsonFields& fields, ModelConfig* config);

}  // namespace sluice::files
