// What config.json says of encoders alone, for hf_config.cc.
#pragma once

#include "files/architectures.h"
#include "files/json_fields.h"
#include "files/model_config.h"

namespace sluice::files {

// Reads positions, types of tokens, biases by distance and labels; the model pools unless a file
// beside it says how. REQUIRES: sizes and heads have been read. Errors name the key.
Status ReadHfEncoder(const JsonFields& fields, const ArchitectureInfo& info, ModelConfig* config);

// Gives the keys of a NomicBERT's published config.json, which are GPT-2's, the names that BERT's
// have. kBadModel where it asks for another form than that of Nomic Embed 1 and 1.5.
Status SpellNomicBert(Json* config);

}  // namespace sluice::files
