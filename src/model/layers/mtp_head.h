// A head that guesses tokens (MiMo's form of multi-token prediction): from the hidden state of a
// token and the embedding of the one behind it, both normed and joined, through one decoder layer
// with KV of its own to a final norm. Embedding and output matrix are the model's. Immutable; the
// ParameterMap and the RopeTable must outlive it.
#pragma once

#include <memory>

#include "model/forward.h"
#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/layers/token_embedding.h"

namespace sluice::model::layers {

class MtpHead {
 public:
  // `layer` is the head's, which comes behind the model's, and `group` its group, with its index.
  static Result<std::unique_ptr<MtpHead>> Make(const Binder& binder, int layer,
                                               const batch::KvGroup& group, int group_index,
                                               const ops::Tensor& rope,
                                               const TokenEmbedding& embedding);

  // As Model::Draft. Changes *a to write what it gives where it is wanted.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const ops::Tensor& hidden,
                    Activations* a, const DraftOutputs& outputs) const;

 private:
  // Norms of [tokens, hidden] into columns of a.joined.
  static Result<ops::Bound<ops::Norm>> BindNorm(const Binder& binder, bool of_residual);

  TokenEmbedding embedding_;
  ops::Bound<ops::Norm> residual_norm_;  // of what has the residual stream's type
  ops::Bound<ops::Norm> own_norm_;       // of what the head gave
  ops::Tensor hidden_weight_, token_weight_, final_weight_;
  FusedLinear join_;
  Norm input_norm_, mlp_norm_;
  Attention attention_;
  Mlp mlp_;
  LogitsHead logits_;
};

}  // namespace sluice::model::layers
