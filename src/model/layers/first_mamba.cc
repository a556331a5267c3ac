#include "model/layers/first_mamba.h"

#include <string>

#include "base/str_cat.h"

namespace sluice::model::layers {

ops::SelectiveScan::Desc SelectiveScanDesc(const files::ModelConfig& config,
                                           const ModelOptions& options,
                                           const batch::KvGroup& group) {
  ops::SelectiveScan::Desc desc;
  desc.activation = options.activation;
  desc.channels = config.linear.value_width();
  desc.state_size = config.linear.key_head_dim;
  desc.block_tokens = group.block_tokens;
  desc.states = group.states;
  return desc;
}

Result<FirstMamba> FirstMamba::Make(const Binder& binder, int layer, const batch::KvGroup& group,
                                    int group_index, const ops::Tensor& ones) {
  const files::LinearAttentionConfig& linear = binder.config.linear;
  const std::string prefix = StrCat("layers.", layer, ".mamba.");
  FirstMamba mamba;
  mamba.layer_ = layer;
  mamba.group_ = group_index;
  mamba.step_rank_ = linear.step_rank;
  mamba.in_ = FusedLinear::Make(binder, prefix + "in");
  mamba.scan_in_ = FusedLinear::Make(binder, prefix + "scan_in");
  mamba.steps_ = FusedLinear::Make(binder, prefix + "steps");
  mamba.output_ = FusedLinear::Make(binder, prefix + "output");
  SLUICE_ASSIGN_OR_RETURN(mamba.conv_, LayerConv::Make(binder, prefix + "taps", group));
  SLUICE_RETURN_IF_ERROR(mamba.MakeNorms(binder, prefix, ones));
  SLUICE_ASSIGN_OR_RETURN(mamba.scan_, binder.Bind<ops::SelectiveScan>(SelectiveScanDesc(
                                           binder.config, binder.options, group)));
  ops::GatedNorm::Desc gate;
  gate.activation = binder.options.activation;
  gate.heads = 1;
  gate.head_dim = linear.value_width();
  gate.gate_first = true;
  gate.norm = false;
  SLUICE_ASSIGN_OR_RETURN(mamba.gate_, binder.Bind<ops::GatedNorm>(gate));
  mamba.dt_bias_ = binder.Get(prefix + "dt_bias")->tensor;
  mamba.a_ = binder.Get(prefix + "a")->tensor;
  mamba.skip_ = binder.Get(prefix + "skip")->tensor;
  return mamba;
}

Status FirstMamba::MakeNorms(const Binder& binder, const std::string& prefix, ops::Tensor ones) {
  const files::LinearAttentionConfig& linear = binder.config.linear;
  if (linear.scan_norms == files::ScanNorms::kNone) return OkStatus();
  ops::Norm::Desc desc;
  desc.activation = binder.options.activation;
  desc.eps = linear.scan_norm_eps;
  desc.hidden = linear.step_rank;
  SLUICE_ASSIGN_OR_RETURN(step_norm_, binder.Bind<ops::Norm>(desc));
  desc.hidden = linear.key_head_dim;
  SLUICE_ASSIGN_OR_RETURN(state_norm_, binder.Bind<ops::Norm>(desc));
  if (linear.scan_norms == files::ScanNorms::kWeighted) {
    step_weight_ = binder.Get(prefix + "step_norm")->tensor;
    b_weight_ = binder.Get(prefix + "b_norm")->tensor;
    c_weight_ = binder.Get(prefix + "c_norm")->tensor;
    return OkStatus();
  }
  ones.dims[0] = linear.step_rank;
  step_weight_ = ones;
  ones.dims[0] = linear.key_head_dim;
  b_weight_ = c_weight_ = ones;
  return OkStatus();
}

Status FirstMamba::operator()(ForwardContext& context, const DeviceBatch& batch,
                              const Activations& a, const ops::Tensor& residual,
                              const ops::Tensor& out) const {
  device::Stream& stream = *context.stream;
  SLUICE_RETURN_IF_ERROR(in_(stream, a.normed, {}, a.linear_in));
  SLUICE_RETURN_IF_ERROR(
      conv_(stream, batch, group_, a.linear_qkv, context.kv[layer_].v, a.convolved));
  SLUICE_RETURN_IF_ERROR(scan_in_(stream, a.convolved, {}, a.scan_in));
  SLUICE_RETURN_IF_ERROR(Normalize(stream, a.scan_in));
  // The convolution has read what lay in linear_qkv.
  SLUICE_RETURN_IF_ERROR(steps_(stream, a.scan_in.Columns(0, step_rank_), {}, a.linear_qkv));
  SLUICE_RETURN_IF_ERROR(Scan(context, batch, a));
  SLUICE_RETURN_IF_ERROR(TellWritten(context, layer_, group_));
  ops::GatedNorm::Args gate;
  gate.x = gate.out = a.recalled;
  gate.gate = a.linear_gate;
  SLUICE_RETURN_IF_ERROR(gate_(stream, gate));
  return output_(stream, a.recalled, residual, out);
}

Status FirstMamba::Normalize(device::Stream& stream, const ops::Tensor& scan_in) const {
  if (!step_norm_.bound()) return OkStatus();
  const int64_t state = state_norm_.desc().hidden;
  ops::Norm::Args args;
  args.x = args.out = scan_in.Columns(0, step_rank_);
  args.weight = step_weight_;
  SLUICE_RETURN_IF_ERROR(step_norm_(stream, args));
  args.x = args.out = scan_in.Columns(step_rank_, state);
  args.weight = b_weight_;
  SLUICE_RETURN_IF_ERROR(state_norm_(stream, args));
  args.x = args.out = scan_in.Columns(step_rank_ + state, state);
  args.weight = c_weight_;
  return state_norm_(stream, args);
}

Status FirstMamba::Scan(ForwardContext& context, const DeviceBatch& batch,
                        const Activations& a) const {
  const ops::SelectiveScan::Desc& desc = scan_.desc();
  ops::SelectiveScan::Args args;
  args.x = a.convolved;
  args.dt = a.linear_qkv;
  args.bc = a.scan_in.Columns(step_rank_, 2 * int64_t{desc.state_size});
  args.dt_bias = dt_bias_;
  args.a = a_;
  args.skip = skip_;
  args.state = StateOf(context.kv[layer_].k, {desc.state_size, desc.channels});
  SetPlaces(batch, group_, &args);
  args.out = a.recalled;
  return scan_(*context.stream, args);
}

}  // namespace sluice::model::layers
