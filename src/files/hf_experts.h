// The part of config.json that is about experts. Any thread.
#pragma once

#include "files/architectures.h"
#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Fills config->experts and says of each layer whether it has some; bounds across fields are
// FinishConfig's affair. REQUIRES: the sizes and layers are read.
Status ReadHfExperts(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config);

}  // namespace sluice::files
