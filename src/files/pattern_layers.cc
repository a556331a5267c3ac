#include "files/pattern_layers.h"

#include "base/str_cat.h"

namespace sluice::files {

void AddPatternMixer(int stored, LayerKind kind, std::vector<LayerConfig>* layers) {
  LayerConfig& layer = layers->emplace_back();
  layer.kind = kind;
  layer.use_rope = layer.mlp = false;
  layer.stored = stored;
}

Status AddPatternMlp(int stored, bool experts, std::vector<LayerConfig>* layers) {
  if (layers->empty() || layers->back().mlp) {
    return BadModel(StrCat("layer ", stored,
                           " is a feed-forward part behind no mixer of its own, which is not "
                           "supported"));
  }
  layers->back().mlp = true;
  layers->back().experts = experts;
  layers->back().stored_mlp = stored;
  return OkStatus();
}

}  // namespace sluice::files
