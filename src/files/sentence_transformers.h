// The files that sentence-transformers lays beside a checkpoint: modules.json, which names the
// folders of what comes behind the transformer, and what the transformer takes. Any thread.
#pragma once

#include <string>

#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Sets config->pooling, with the labels of a model that ranks, and lowers config->context_length as
// the folder's files say. Without modules.json nothing changes: an encoder pools by the mean, as
// sentence-transformers does. kBadModel where a module or its options are not supported.
Status ReadSentenceTransformers(const std::string& folder, ModelConfig* config);

}  // namespace sluice::files
