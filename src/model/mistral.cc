// Mistral 7B, Nemo and Ministral ("Mistral 7B"): Llama's form; older ones see a sliding window.
#include "model/layers/dense_decoder.h"
#include "model/registry.h"

namespace sluice::model {

Result<std::unique_ptr<Model>> MakeMistral(ModelParts parts) {
  return layers::PreNormDecoder::Make(std::move(parts));
}

}  // namespace sluice::model
