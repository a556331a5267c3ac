// The parts of config.json that are about how the blocks of a layer stand, and the refusal of what
// some of its keys ask for. Any thread.
#pragma once

#include "files/architectures.h"
#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Parallel blocks and their norms; with the row's `falcon_switches` the number of KV heads, too.
// REQUIRES: sizes and heads are read.
Status ReadHfWiring(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config);

}  // namespace sluice::files
