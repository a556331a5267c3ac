// Gates: what a layer's output passes before its last product, a norm times a gate, behind a
// recurrence, or a gate alone, behind attention; and what a shared expert gives times its gate.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// Per head of head_dim numbers: out = x / sqrt(mean of x^2 + eps) * weight * silu(gate). With
// `gate_first` (Mamba-2) x is x * silu(gate) instead, and no gate follows; without `norm` that
// product is all. The gate is multiplied by `gate_scale` before, and out by `out_scale`.
struct GatedNorm {
  static constexpr std::string_view kName = "gated_norm";
  struct Desc {
    DType activation = DType::kF32;
    int heads = 0, head_dim = 0;
    float eps = 1e-6f;
    bool gate_first = false;
    bool norm = true;  // may be false with gate_first alone
    float gate_scale = 1.0f, out_scale = 1.0f;
    std::string ToString() const;
    // 0 where all heads have the same weights.
    int64_t weight_step() const { return gate_first ? head_dim : 0; }
    int64_t weights() const { return gate_first ? int64_t{heads} * head_dim : head_dim; }
  };
  struct Args {
    Tensor x;     // [tokens, heads * head_dim], rows may be strided
    Tensor gate;  // [tokens, heads * head_dim], rows may be strided
    // F32 [head_dim], the same for all heads; with gate_first [heads * head_dim]. Empty without
    // norm.
    Tensor weight;
    Tensor out;  // [tokens, heads * head_dim]; may be x, may not overlap gate
  };
};

// x = x * sigmoid(gate), in place.
struct SigmoidGate {
  static constexpr std::string_view kName = "sigmoid_gate";
  struct Desc {
    DType activation = DType::kF32;
    int64_t width = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor x;     // [tokens, width], rows may be strided
    Tensor gate;  // [tokens, width], rows may be strided; may not overlap x
  };
};

// out = residual + sigmoid(gate) * x, where a row has one gate. In F32, rounded once.
struct SigmoidGateScaleAdd {
  static constexpr std::string_view kName = "sigmoid_gate_scale_add";
  struct Desc {
    DType activation = DType::kF32;  // of x
    DType out = DType::kF32;         // of residual and out: the activation type or F32
    int64_t width = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor x;         // [tokens, width], rows may be strided
    Tensor gate;      // F32 [tokens, 1], rows may be strided
    Tensor residual;  // [tokens, width], may be the same memory as out
    Tensor out;       // [tokens, width], may not overlap x
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const GatedNorm::Desc& desc, const GatedNorm::Args& args);
Status CheckArgs(const SigmoidGate::Desc& desc, const SigmoidGate::Args& args);
Status CheckArgs(const SigmoidGateScaleAdd::Desc& desc, const SigmoidGateScaleAdd::Args& args);

Support RefGatedNormSupports(const GatedNorm::Desc& desc, const device::DeviceFacts& facts);
Status RefGatedNorm(device::Stream& stream, const GatedNorm::Desc& desc,
                    const GatedNorm::Args& args);
Support RefSigmoidGateSupports(const SigmoidGate::Desc& desc, const device::DeviceFacts& facts);
Status RefSigmoidGate(device::Stream& stream, const SigmoidGate::Desc& desc,
                      const SigmoidGate::Args& args);
Support RefSigmoidGateScaleAddSupports(const SigmoidGateScaleAdd::Desc& desc,
                                       const device::DeviceFacts& facts);
Status RefSigmoidGateScaleAdd(device::Stream& stream, const SigmoidGateScaleAdd::Desc& desc,
                              const SigmoidGateScaleAdd::Args& args);

}  // namespace sluice::ops
