// What experts make of the tokens that a router has given them: tokens put together by expert, the
// experts' products, and what they made of a token added up. Runs where its parameters lie.
// Immutable; the ParameterMap must outlive it.
#pragma once

#include <string>

#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "ops/activation.h"
#include "ops/experts.h"
#include "ops/group_quant.h"
#include "ops/grouped_gate.h"

namespace sluice::model::layers {

class ExpertProducts {
 public:
  // Of the layer's experts, which lie in `slots`; experts are slots from here on. What is given has
  // the type `out`, and with `adds` a residual is added to it.
  static Result<ExpertProducts> Make(const Binder& binder, int layer, int slots, DType out,
                                     bool adds);

  struct Args {
    ops::Tensor x;        // [tokens, hidden size] of the binder's activation type
    ops::Tensor ids;      // I32 [tokens, experts of a token]
    ops::Tensor weights;  // F32, likewise; written over where weights are on what experts read
    ops::Tensor counts, counted;  // as ops::GroupExperts has them; may be empty
    ops::Tensor residual;         // [tokens, hidden size] or empty; may be `out`
    ops::Tensor out;              // [tokens, hidden size]; may be `x`
  };
  // Uses the activations of experts in `a`, but for those that `args` names.
  Status operator()(device::Stream& stream, const Args& args, const Activations& a) const;

 private:
  // The matrices of all experts and their biases [experts, rows], if they have some.
  struct Matrices {
    const weights::Parameter* weight = nullptr;
    ops::Tensor bias;
    bool takes_codes = false;
  };
  static Matrices MatricesOf(const Binder& binder, const std::string& name, int experts);
  // The first products and what their gates open for as one op, where the device has that and their
  // matrix lies in one piece.
  void BindGate(const Binder& binder);
  // What the second products read.
  Result<LinearRows> Inner(device::Stream& stream, const Args& args, const ops::Tensor& starts,
                           const Activations& a) const;
  // out = the products of x, whose rows `tokens` names or which is empty, with `matrices`.
  static Status Multiply(device::Stream& stream, const Matrices& matrices,
                         const ops::Tensor& starts, const LinearRows& x, const ops::Tensor& tokens,
                         const ops::Tensor& out);

  Matrices first_, down_;
  ops::Bound<ops::GroupExperts> group_;
  ops::Bound<ops::ScaleExperts> scale_;  // unbound: weights are on what experts give
  ops::Bound<ops::GatedActivation> gated_;
  ops::Bound<ops::GroupQuant> coded_;       // instead, where down reads codes
  ops::Bound<ops::GroupedGate> gate_;       // the first products and coded_ of few rows
  ops::Bound<ops::PlainActivation> plain_;  // instead, where experts have no gate
  ops::Bound<ops::CombineExperts> combine_;
};

}  // namespace sluice::model::layers
