// The forward pass of every decoder: blocks around one residual stream, a mixer and a feed-forward
// part for each layer. Which mixer a layer has and where norms stand is data: the architecture's
// row in files/architectures.cc and the config. A model that these blocks can't be arranged for has
// a Forward of its own over them.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "model/layers/attention.h"
#include "model/layers/chain.h"
#include "model/layers/dense_and_experts.h"
#include "model/layers/expert_mlp.h"
#include "model/layers/first_mamba.h"
#include "model/layers/gated_conv.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/head_vector.h"
#include "model/layers/host_experts.h"
#include "model/layers/latent_attention.h"
#include "model/layers/layer_inputs.h"
#include "model/layers/lightning_attention.h"
#include "model/layers/mamba.h"
#include "model/layers/mlp.h"
#include "model/layers/mtp_head.h"
#include "model/layers/norm.h"
#include "model/layers/pooling.h"
#include "model/layers/rope_table.h"
#include "model/layers/shared_expert.h"
#include "model/layers/token_embedding.h"
#include "model/model.h"

namespace sluice::model::layers {

class Decoder : public Model {
 public:
  static Result<std::unique_ptr<Model>> Make(ModelParts parts);
  size_t workspace_bytes() const override { return Activations::Bytes(config_, options_); }
  Status Forward(ForwardContext& context, const DeviceBatch& batch,
                 const Outputs& outputs) const override;
  Status Draft(ForwardContext& context, const DeviceBatch& batch, const ops::Tensor& hidden,
               const DraftOutputs& outputs, int head) const override;

 private:
  using Body =
      std::variant<Attention, LatentAttention, GatedDeltaNet, GatedConv, Mamba, FirstMamba,
                   LightningAttention, Mlp, ExpertMlp, DenseAndExperts, SharedExpert, LayerInput>;
  struct Block {
    // Unbound: the block reads what the one before it read, so that the two are parallel.
    Norm before;
    // Puts what the norm gives, scaled, in the place of the residual stream. Unbound: this stays.
    Norm keep;
    Body body;
    // Of what the body gives, which the norm that comes next then adds to the residual stream.
    // Unbound: the body's last product adds it.
    Norm after;
    // What the body gives is left for the first norm of the layer that comes next to add.
    bool waits = false;
    bool ends_layer = false;
    // Of attention: what stands between it and the attention of the next layer, for steps of few
    // tokens, instead of the output matrix, the block behind and the next one's norm and QKV.
    Chain chain;
  };
  // Where a pass is in the blocks.
  struct Pass {
    Activations& a;
    ops::Tensor home;             // the residual stream's own memory
    bool takes_turns = false;     // blocks' sums go to branch's memory by turns
    std::span<const int> wanted;  // Outputs::layers that are still to come
    int layer = 0;
    bool projected = false;  // a.qkv_gate is that of the block which comes next
  };

  explicit Decoder(ModelParts parts) : Model(std::move(parts)) {}
  Status MakeHeadVectors();
  // Appends the blocks of a layer.
  Status AddLayer(const Binder& binder, int layer);
  // What stands behind the last block.
  Status MakeEnd(const Binder& binder);
  Result<Body> MakeMixer(const Binder& binder, int layer) const;
  Result<Body> MakeMlp(const Binder& binder, int layer) const;
  Result<Body> MakeSharedExpert(const Binder& binder, int layer) const;
  // Appends a block. `after` names the norm of what it gives; empty: it has none.
  Status AddBlock(const Binder& binder, Norm before, Body body, const std::string& after);
  // Appends what layer `layer` has behind its mixer, if it has anything.
  Status AddFeedForward(const Binder& binder, int layer);
  // Appends what layer `layer` makes of its inputs, if the model has such.
  Status AddLayerInput(const Binder& binder, int layer);
  // Lets the norms before blocks give codes to those that read some.
  Status WireCodes(const Binder& binder);
  // Finds the layers whose blocks a chain may stand for.
  void WireChains(const Binder& binder);
  // Where the residual stream goes that a block adds to, which is at `from` before.
  ops::Tensor SumOf(const Block& block, const ops::Tensor& from, const Outputs& outputs,
                    Pass& pass) const;
  Status RunBlock(ForwardContext& context, const DeviceBatch& batch, const Outputs& outputs,
                  const Block& block, Pass& pass) const;
  // Block `number`, which has a chain, and the one behind it.
  Status RunChain(ForwardContext& context, const DeviceBatch& batch, const Outputs& outputs,
                  size_t number, Pass& pass) const;
  // The norm `name`, in place of the residual stream; unbound where the factor is 0.
  Result<Norm> KeptNorm(const Binder& binder, int layer, const char* name, float factor) const;
  // The norm `name` (empty: only the sum) of the residual stream, to which what blocks have not
  // added is added first.
  Result<Norm> NormOfSum(const Binder& binder, const std::string& name) const;

  TokenEmbedding embedding_;
  Norm embedding_norm_;       // unbound: the model has none
  LayerInputs layer_inputs_;  // unbound: the model has none
  RopeTables rope_;
  HeadVector slopes_, ones_;                   // AttentionTables; empty unless the model has them
  std::unique_ptr<HostExperts> host_experts_;  // null: the device has all
  std::vector<Block> blocks_;
  bool adds_to_normed_ = false;  // what the blocks' last products add to is what norms give
  bool branch_is_free_ = false;  // no block or pooling uses Activations::branch
  Norm final_norm_;              // unbound: the head has it
  LogitsHead head_;              // of a model that generates
  Pooling pooling_;              // of one that embeds
  std::vector<std::unique_ptr<MtpHead>> mtp_heads_;  // options_.mtp_heads
};

}  // namespace sluice::model::layers
