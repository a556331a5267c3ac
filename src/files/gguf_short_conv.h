// The part of GGUF's metadata that is about layers with a short convolution (LFM2). Any thread.
#pragma once

#include "files/gguf_fields.h"
#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// The number of KV heads of a model in which layers without any are of the kind `other`.
Status ReadGgufKvHeads(const GgufFields& fields, LayerKind other, ModelConfig* config);

// Fills config->short_conv, the number of KV heads, and the kinds of layers, of which those without
// KV heads have a convolution. Errors name the key. REQUIRES: sizes are read, and there is a
// LayerConfig for each layer.
Status ReadGgufShortConv(const GgufFields& fields, ModelConfig* config);

}  // namespace sluice::files
