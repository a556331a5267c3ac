// The part of config.json that is about layers without attention (Qwen3-Next). Any thread.
#pragma once

#include "files/json_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Fills config->linear; its bounds across fields are FinishConfig's affair.
Status ReadHfLinearAttention(const JsonFields& fields, ModelConfig* config);

// kBadModel where attention has biases, or where the activation is not the one that the convolution
// is made for. REQUIRES: the activation is read.
Status CheckHfLinearModel(const JsonFields& fields, const ModelConfig& config);

}  // namespace sluice::files
