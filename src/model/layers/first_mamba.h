// A layer of Mamba's first form, which keeps a running state instead of K and V: one matrix for
// values and gate, a short convolution, a product that makes step sizes by way of a latent, B and C
// of what that gives, a recurrence in which each number of the state decays by a factor of its own,
// the gate, output matrix ("Mamba: Linear-Time Sequence Modeling with Selective State Spaces").
// Immutable; the ParameterMap must outlive it.
#pragma once

#include "model/forward.h"
#include "model/layers/activations.h"
#include "model/layers/binder.h"
#include "model/layers/fused_linear.h"
#include "model/layers/layer_state.h"
#include "ops/gate.h"
#include "ops/norm.h"
#include "ops/recurrent.h"

namespace sluice::model::layers {

// The op's descriptor for the layers of a group of states.
ops::SelectiveScan::Desc SelectiveScanDesc(const files::ModelConfig& config,
                                           const ModelOptions& options,
                                           const batch::KvGroup& group);

class FirstMamba {
 public:
  // `group`: the layer's group, of kind kState, and its index. `ones`: F32, as many as the widest
  // norm without weights has numbers; empty where norms have weights or there are none.
  static Result<FirstMamba> Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                 int group_index, const ops::Tensor& ones);

  // out = output matrix of what the state gives for a.normed (+ residual). Uses a.linear_in,
  // a.convolved, a.scan_in, a.recalled.
  Status operator()(ForwardContext& context, const DeviceBatch& batch, const Activations& a,
                    const ops::Tensor& residual, const ops::Tensor& out) const;

 private:
  Status MakeNorms(const Binder& binder, const std::string& prefix, ops::Tensor ones);
  // The latent of step sizes, B and C, each with its norm.
  Status Normalize(device::Stream& stream, const ops::Tensor& scan_in) const;
  Status Scan(ForwardContext& context, const DeviceBatch& batch, const Activations& a) const;

  int layer_ = 0, group_ = 0, step_rank_ = 0;
  FusedLinear in_, scan_in_, steps_, output_;
  LayerConv conv_;
  ops::Bound<ops::Norm> step_norm_, state_norm_;  // unbound: there are none
  ops::Bound<ops::SelectiveScan> scan_;
  ops::Bound<ops::GatedNorm> gate_;
  ops::Tensor dt_bias_, a_, skip_;
  ops::Tensor step_weight_, b_weight_, c_weight_;  // of norms
};

}  // namespace sluice::model::layers
