// The keys of config.json that scale what flows through the model: scores, embeddings, what blocks
// add, logits; and the caps on scores and logits. Any thread.
#pragma once

#include "files/architectures.h"
#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// REQUIRES: sizes and heads are read.
Status ReadHfScales(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config);

}  // namespace sluice::files
