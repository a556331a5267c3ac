// Qwen 2 and 2.5 ("Qwen2 Technical Report"): Llama's form with biases on Q, K and V.
#include "model/layers/dense_decoder.h"
#include "model/registry.h"

namespace sluice::model {

Result<std::unique_ptr<Model>> MakeQwen2(ModelParts parts) {
  return layers::PreNormDecoder::Make(std::move(parts));
}

}  // namespace sluice::model
