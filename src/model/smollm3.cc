// SmolLM3: Llama's form without RoPE in every fourth layer (LayerConfig::use_rope).
#include "model/layers/dense_decoder.h"
#include "model/registry.h"

namespace sluice::model {

Result<std::unique_ptr<Model>> MakeSmolLM3(ModelParts parts) {
  return layers::PreNormDecoder::Make(std::move(parts));
}

}  // namespace sluice::model
