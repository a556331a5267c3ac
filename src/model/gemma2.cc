// Gemma 2 ("Gemma 2: Improving Open Language Models at a Practical Size"): norms around each block,
// every other layer sees a window, soft caps on scores and logits.
#include "model/layers/dense_decoder.h"
#include "model/registry.h"

namespace sluice::model {

Result<std::unique_ptr<Model>> MakeGemma2(ModelParts parts) {
  return layers::SandwichNormDecoder::Make(std::move(parts));
}

}  // namespace sluice::model
