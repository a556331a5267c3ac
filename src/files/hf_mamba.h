// The part of config.json that is about layers of Mamba or Mamba-2. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "files/architectures.h"
#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Fills config->linear and says which layers are of Mamba, by the architecture's rule of layers.
// Errors name the key. REQUIRES: the activation is read, and there is a LayerConfig for each layer.
Status ReadHfMamba(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config);

// A config.json as Python may write it: numbers that JSON has no words for (Infinity, NaN), which
// such files have among their limits, become null.
std::string WithoutInfinities(std::string_view json);

}  // namespace sluice::files
