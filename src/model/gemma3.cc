// Gemma 3, text ("Gemma 3 Technical Report"): Gemma 2's form with Q/K norms instead of soft caps,
// and a RoPE of their own for the window layers.
#include "model/layers/dense_decoder.h"
#include "model/registry.h"

namespace sluice::model {

Result<std::unique_ptr<Model>> MakeGemma3(ModelParts parts) {
  return layers::SandwichNormDecoder::Make(std::move(parts));
}

}  // namespace sluice::model
