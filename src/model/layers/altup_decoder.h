// The forward pass of a decoder of several residual streams (Gemma 3n): each layer works on the
// first, predicted from all of them, and what it makes of this corrects them all.
#pragma once

#include <memory>
#include <vector>

#include "model/layers/altup.h"
#include "model/layers/attention.h"
#include "model/layers/head_vector.h"
#include "model/layers/layer_inputs.h"
#include "model/layers/mlp.h"
#include "model/layers/rope_table.h"
#include "model/layers/token_embedding.h"
#include "model/model.h"

namespace sluice::model::layers {

class AltUpDecoder : public Model {
 public:
  static Result<std::unique_ptr<Model>> Make(ModelParts parts);
  size_t workspace_bytes() const override { return Activations::Bytes(config_, options_); }
  // REQUIRES: outputs.layers is empty, as a layer leaves several hidden states.
  Status Forward(ForwardContext& context, const DeviceBatch& batch,
                 const Outputs& outputs) const override;

 private:
  struct Layer {
    AltUp altup;
    Norm input_norm;
    Laurel laurel;
    Attention attention;
    Norm attention_post_norm, mlp_norm;
    Mlp mlp;
    Norm mlp_post_norm;
    LayerInput input;
    Norm input_post_norm;
  };

  explicit AltUpDecoder(ModelParts parts) : Model(std::move(parts)) {}
  Result<Layer> MakeLayer(const Binder& binder, int layer) const;

  TokenEmbedding embedding_;
  Streams streams_;
  LayerInputs layer_inputs_;
  RopeTables rope_;
  HeadVector ones_;  // AttentionTables
  HeadVector half_;  // the root of a half, which a sum of two branches is multiplied by
  std::vector<Layer> layers_;
  LogitsHead head_;
};

}  // namespace sluice::model::layers
