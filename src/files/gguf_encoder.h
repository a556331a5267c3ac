// What GGUF's metadata say of models that embed, for gguf_config.cc.
#pragma once

#include "files/architectures.h"
#include "files/gguf.h"
#include "files/model_config.h"

namespace sluice::files {

// Reads how vectors are made, tables of positions and types, and labels; nothing of a model that
// generates. REQUIRES: sizes have been read. kBadModel names the key or the tensor.
Status ReadGgufPooling(const GgufFile& file, const ArchitectureInfo& info, ModelConfig* config);

}  // namespace sluice::files
