// Both ends of a decoder: token ids to hidden states, and hidden states to logits. Immutable; the
// ParameterMap must outlive them.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/norm.h"
#include "ops/activation.h"
#include "ops/embedding.h"

namespace sluice::model::layers {

class TokenEmbedding {
 public:
  // `table`: [vocabulary, hidden].
  static Result<TokenEmbedding> Make(const Binder& binder, const ops::Tensor& table);
  // out [tokens, hidden]: the scaled rows of batch.token_ids, and where the model has tables of
  // positions and of token types those of these added.
  Status operator()(device::Stream& stream, const DeviceBatch& batch, const ops::Tensor& out) const;

 private:
  struct Lookup {
    ops::Bound<ops::Embedding> embedding;  // unbound: the model has no such table
    ops::Tensor table;
  };
  // From row `first` of the table on.
  static Result<Lookup> MakeLookup(const Binder& binder, const ops::Tensor& table, int64_t first,
                                   bool add);

  Lookup tokens_, positions_, types_;
};

// Final norm, output matrix and soft cap of the rows that need logits.
class LogitsHead {
 public:
  // `final_norm`: its parameter; empty where hidden states arrive normed.
  static Result<LogitsHead> Make(const Binder& binder, const std::string& final_norm);
  // The output matrix and its soft cap are of another model than the norm; without a name nothing
  // is normed.
  static Result<LogitsHead> Make(const Binder& of_norm, const std::string& final_norm,
                                 const Binder& of_output);
  // Of a.hidden, or of a.normed without a final norm. Writes a.last and a.last_normed; logits
  // [rows, vocab]. Zero rows do nothing.
  Status operator()(device::Stream& stream, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& logits) const;

 private:
  static Result<LogitsHead> Make(const Binder& of_norm, const std::string& final_norm,
                                 bool of_hidden, const Binder& of_output);

  ops::Bound<ops::GatherRows> gather_;
  Norm norm_;  // unbound: hidden states arrive normed
  FusedLinear output_;
  ops::Bound<ops::SoftCap> soft_cap_;  // unbound: the model has none
};

}  // namespace sluice::model::layers
