#include "model/layers/decoder_params.h"
#include "model/registry.h"

namespace sluice::model {

std::vector<weights::ParamSpec> Gemma3Params(const files::ModelConfig& config) {
  return layers::SandwichNormParams(
      config,
      // text only; inside a multimodal checkpoint, as old and new transformers write it
      {{"model.", ""},
       {"language_model.model.", "language_model."},
       {"model.language_model.", ""}});
}

}  // namespace sluice::model
