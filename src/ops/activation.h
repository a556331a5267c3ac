// Activations, gated or alone, the soft cap, and what makes a gate sparse.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

enum class Activation : uint8_t { kSilu, kGeluTanh, kGeluErf, kReluSquared, kClampedSwiglu };
// Those of one number, and all of them: what conformance and tests go through.
inline constexpr Activation kPlainActivations[] = {Activation::kSilu, Activation::kGeluTanh,
                                                   Activation::kGeluErf, Activation::kReluSquared};
inline constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh,
                                              Activation::kGeluErf, Activation::kReluSquared,
                                              Activation::kClampedSwiglu};
// Of kClampedSwiglu, which gates alone have: min(g, limit) * sigmoid(slope * min(g, limit)) *
// (1 + u) for the gate g and the other half u, which is clamped to +-limit.
inline constexpr float kSwigluLimit = 7.0f, kSwigluSlope = 1.702f;

// "silu", "gelu_tanh", "gelu_erf", "relu_squared", "clamped_swiglu".
std::string_view Name(Activation kind);

// out[t, i] = out_scale * act(gate_scale * gate_up[t, i]) * gate_up[t, width + i], unless the kind
// says something else: the first half is the gate.
struct GatedActivation {
  static constexpr std::string_view kName = "gated_activation";
  struct Desc {
    Activation kind = Activation::kSilu;
    DType activation = DType::kF32;
    int64_t width = 0;
    float gate_scale = 1.0f, out_scale = 1.0f;
    std::string ToString() const;
  };
  struct Args {
    Tensor gate_up;  // [tokens, 2 * width]
    Tensor out;      // [tokens, width]; may not overlap
  };
};

// x = act(x), in place, with one of kPlainActivations.
struct PlainActivation {
  static constexpr std::string_view kName = "plain_activation";
  struct Desc {
    Activation kind = Activation::kGeluErf;
    DType activation = DType::kF32;
    int64_t width = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor x;  // [tokens, width], rows may be strided
  };
};

// x = cap * tanh(x / cap), in place.
struct SoftCap {
  static constexpr std::string_view kName = "soft_cap";
  struct Desc {
    DType activation = DType::kF32;
    float cap = 0.0f;  // > 0
    std::string ToString() const;
  };
  struct Args {
    Tensor x;  // [rows, columns]
  };
};

// x = max(0, x - cutoff), in place, where a row's cutoff lies so many standard deviations above its
// mean: of numbers that are spread normally the largest stay ("Spark Transformer", You et al.,
// 2025).
struct GaussianTopK {
  static constexpr std::string_view kName = "gaussian_top_k";
  struct Desc {
    DType activation = DType::kF32;
    int64_t width = 0;
    float deviations = 0.0f;
    std::string ToString() const;
  };
  struct Args {
    Tensor x;  // [tokens, width], rows may be strided
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const GatedActivation::Desc& desc, const GatedActivation::Args& args);
Status CheckArgs(const PlainActivation::Desc& desc, const PlainActivation::Args& args);
Status CheckArgs(const SoftCap::Desc& desc, const SoftCap::Args& args);
Status CheckArgs(const GaussianTopK::Desc& desc, const GaussianTopK::Args& args);

Support RefGatedActivationSupports(const GatedActivation::Desc& desc,
                                   const device::DeviceFacts& facts);
Status RefGatedActivation(device::Stream& stream, const GatedActivation::Desc& desc,
                          const GatedActivation::Args& args);
Support RefPlainActivationSupports(const PlainActivation::Desc& desc,
                                   const device::DeviceFacts& facts);
Status RefPlainActivation(device::Stream& stream, const PlainActivation::Desc& desc,
                          const PlainActivation::Args& args);
Support RefSoftCapSupports(const SoftCap::Desc& desc, const device::DeviceFacts& facts);
Status RefSoftCap(device::Stream& stream, const SoftCap::Desc& desc, const SoftCap::Args& args);
Support RefGaussianTopKSupports(const GaussianTopK::Desc& desc, const device::DeviceFacts& facts);
Status RefGaussianTopK(device::Stream& stream, const GaussianTopK::Desc& desc,
                       const GaussianTopK::Args& args);

}  // namespace sluice::ops
