// The part of config.json that is about layers of Mamba's first form. Any thread.
#pragma once

#include "files/architectures.h"
#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// As ReadHfMamba, of architectures whose row says first_mamba.
Status ReadHfFirstMamba(const JsonFields& fields, const ArchitectureInfo& info,
                        ModelConfig* config);

}  // namespace sluice::files
