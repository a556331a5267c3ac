// What layers of Gemma 4 are to each other, whichever file said so. Any thread.
#pragma once

#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// The layers of a kind share a table of rotations and a group of KV: kBadModel where their heads
// differ.
Status CheckGemma4Kinds(const ModelConfig& config);

// The table of inputs of layers has a row for each token.
Status CheckGemma4Inputs(const ModelConfig& config);

// The last `shared` layers read the K and V of the last one before them of their kind. REQUIRES:
// shared < num_layers.
Status ShareGemma4Kv(int shared, ModelConfig* config);

}  // namespace sluice::files
