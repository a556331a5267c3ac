// Phi-3 and Phi-4-mini ("Phi-3 Technical Report"): Llama's form with fused matrices in the files,
// LongRoPE, and partial rotation in some sizes.
#include "model/layers/dense_decoder.h"
#include "model/registry.h"

namespace sluice::model {

Result<std::unique_ptr<Model>> MakePhi3(ModelParts parts) {
  return layers::PreNormDecoder::Make(std::move(parts));
}

}  // namespace sluice::model
