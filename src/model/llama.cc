// Llama 2 and 3, SmolLM 1 and 2, and other models of that form ("Llama 2: Open Foundation and
// Fine-Tuned Chat Models"): pre-norm, RoPE, grouped queries, SiLU.
#include "model/layers/dense_decoder.h"
#include "model/registry.h"

namespace sluice::model {

Result<std::unique_ptr<Model>> MakeLlama(ModelParts parts) {
  return layers::PreNormDecoder::Make(std::move(parts));
}

}  // namespace sluice::model
