// What layers of Gemma 4 and 3n are to each other and are given of a token. Any thread.
#pragma once

#include "files/gguf_fields.h"
#include "files/json_fields.h"
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
Status ShareKv(int shared, ModelConfig* config);

// Of config.json, what layers are given of a token, of at least `width_min` numbers a layer; and of
// GGUF, where none may be.
Status ReadHfLayerInputs(const JsonFields& fields, int width_min, ModelConfig* config);
Status ReadGgufLayerInputs(const GgufFields& fields, ModelConfig* config);

}  // namespace sluice::files
