// The parts of config.json that are about how attention knows positions, other than RoPE. Any
// thread.
#pragma once

#include "files/architectures.h"
#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Whether scores fall with the distance, by the row's AlibiRule. REQUIRES: heads, layers and
// attention_scale are read.
Status ReadHfAlibi(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config);

// LayerRule::kPeriodicChunks: which layers rotate, which see chunks of what length, and how queries
// of the others grow. REQUIRES: config->layers has its size.
Status ReadHfChunks(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config);

}  // namespace sluice::files
