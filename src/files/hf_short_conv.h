// The part of config.json that is about layers with a short convolution (LFM2). Any thread.
#pragma once

#include "files/architectures.h"
#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Fills config->short_conv, reads what such files have names of their own for, and makes
// config->intermediate_size what it is with gates where the architecture's row says so. Errors name
// the key.
Status ReadHfShortConv(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config);

// The kinds of layers from "full_attn_idxs", for files without "layer_types".
Status ReadHfAttentionLayers(const JsonFields& fields, ModelConfig* config);

}  // namespace sluice::files
