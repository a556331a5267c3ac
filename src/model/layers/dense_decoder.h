// What every dense decoder has besides its Forward: embedding, RoPE tables, layers, logits head and
// the workspace. The two families differ in where they normalize: PreNormDecoder before each block
// (Llama, Mistral, Qwen, Phi-3, SmolLM3), SandwichNormDecoder before and after (Gemma 2 and 3). A
// layer of the first may have a state instead of attention (Qwen3-Next).
#pragma once

#include <variant>
#include <vector>

#include "model/layers/attention.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/gated_mlp.h"
#include "model/layers/norm.h"
#include "model/layers/rope_table.h"
#include "model/layers/token_embedding.h"
#include "model/model.h"

namespace sluice::model::layers {

class DenseDecoder : public Model {
 public:
  size_t workspace_bytes() const override { return Activations::Bytes(config_, options_); }

 protected:
  explicit DenseDecoder(ModelParts parts) : Model(std::move(parts)) {}

  Binder MakeBinder() const { return {config_, options_, parameters_, device_.ops()}; }
  // Everything outside the layers, and the RoPE tables that layers take.
  // `final_norm`: the head applies it; false where the last layer has.
  Status BuildEnds(const Binder& binder, bool final_norm);
  Result<Attention> MakeAttention(const Binder& binder, int layer) const;
  Activations Slice(const ForwardContext& context, const DeviceBatch& batch) const {
    return Activations::Slice(context.workspace, config_, options_, batch.tokens(), batch.rows());
  }

  TokenEmbedding embedding_;
  LogitsHead head_;
  RopeTable rope_, local_rope_;  // the second is empty unless a layer uses it
};

class PreNormDecoder : public DenseDecoder {
 public:
  static Result<std::unique_ptr<Model>> Make(ModelParts parts);
  Status Forward(ForwardContext& context, const DeviceBatch& batch,
                 const ops::Tensor& logits) const override;

 private:
  explicit PreNormDecoder(ModelParts parts) : DenseDecoder(std::move(parts)) {}
  Result<std::variant<Attention, GatedDeltaNet>> MakeMixer(const Binder& binder, int layer) const;
  struct Layer {
    RmsNorm input_norm;
    std::variant<Attention, GatedDeltaNet> mixer;
    RmsNorm mlp_norm;
    GatedMlp mlp;
  };
  std::vector<Layer> layers_;
};

class SandwichNormDecoder : public DenseDecoder {
 public:
  static Result<std::unique_ptr<Model>> Make(ModelParts parts);
  Status Forward(ForwardContext& context, const DeviceBatch& batch,
                 const ops::Tensor& logits) const override;

 private:
  explicit SandwichNormDecoder(ModelParts parts) : DenseDecoder(std::move(parts)) {}
  struct Layer {
    Attention attention;
    RmsNorm attention_post_norm;
    RmsNorm mlp_norm;  // of hidden + the attention's output
    GatedMlp mlp;
    RmsNorm mlp_post_norm;
    RmsNorm next_norm;  // of hidden + the MLP's output: the next layer's, or the final norm
  };
  RmsNorm first_norm_;
  std::vector<Layer> layers_;
};

}  // namespace sluice::model::layers
