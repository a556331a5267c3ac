// Qwen 3, dense ("Qwen3 Technical Report"): Llama's form with RMSNorm on each head of Q and K.
#include "model/layers/dense_decoder.h"
#include "model/registry.h"

namespace sluice::model {

Result<std::unique_ptr<Model>> MakeQwen3(ModelParts parts) {
  return layers::PreNormDecoder::Make(std::move(parts));
}

}  // namespace sluice::model
