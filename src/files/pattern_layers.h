// Layers of a model whose checkpoint has mixers and feed-forward parts as layers of their own, in
// any order that has a mixer first. Any thread.
#pragma once

#include <vector>

#include "files/model_config.h"
#include "sluice/status.h"

namespace sluice::files {

// Appends layer `stored` of the checkpoint, a mixer of the kind.
void AddPatternMixer(int stored, LayerKind kind, std::vector<LayerConfig>* layers);

// Gives layer `stored`, a feed-forward part, to the mixer before it. kBadModel where there is none
// that has none yet.
Status AddPatternMlp(int stored, bool experts, std::vector<LayerConfig>* layers);

}  // namespace sluice::files
