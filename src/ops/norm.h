// RMSNorm and LayerNorm over the last dimension, and RMSNorm of Q and K heads inside packed QKV.
// Sums run in F32 in ascending order of the element (the order is part of the contract between
// implementations of one device, not across devices).
#pragma once

#include "ops/group_quant.h"
#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

enum class NormKind : uint8_t {
  kRms,
  kLayer,
  kNone,  // out is what would be normalized: the sum with the residual alone, in the type of out
};

struct Norm {
  static constexpr std::string_view kName = "norm";
  struct Desc {
    NormKind kind = NormKind::kRms;
    DType activation = DType::kF32;
    int64_t hidden = 0;
    float eps = 1e-5f;
    bool add = false;     // residual += x first, then out = norm(residual)
    bool scaled = false;  // of `add` alone: residual = (residual + x) * scale, then as ever
    bool bias = false;    // of kLayer alone
    // What is normalized, the residual or without `add` x, is F32 whatever the activation type.
    bool f32_residual = false;
    RowForm form = RowForm::kPlain;  // codes are those of what `out` holds or would hold
    std::string ToString() const;
  };
  struct Args {
    Tensor x;         // [tokens, hidden], rows may be strided; of type XDType
    Tensor residual;  // [tokens, hidden] updated in place when desc.add; else empty; SumDType
    Tensor weight;    // F32 [hidden]; empty for kNone
    Tensor bias;      // F32 [hidden] or empty
    Tensor scale;     // F32 [1] or empty
    // [tokens, hidden] of the activation type; may be x of the same type. Empty for
    // RowForm::kCodes.
    Tensor out;
    // Of forms with codes: F8_E4M3 [tokens, hidden], and F32 [groups of kCodeGroup, tokens], whose
    // rows may be strided. Else empty. They share no memory with others.
    Tensor codes = {}, code_scales = {};
  };
};

// The types of what is normalized and of x.
inline DType SumDType(const Norm::Desc& desc) {
  return desc.f32_residual ? DType::kF32 : desc.activation;
}
inline DType XDType(const Norm::Desc& desc) { return desc.add ? desc.activation : SumDType(desc); }

// In place on the first q_heads + kv_heads heads of each row; V is untouched. With 0 kv_heads all
// heads are alike.
struct QkNorm {
  static constexpr std::string_view kName = "qk_norm";
  struct Desc {
    DType activation = DType::kF32;
    int q_heads = 0, kv_heads = 0, head_dim = 0;
    float eps = 1e-5f;
    std::string ToString() const;
  };
  struct Args {
    Tensor qkv;       // [tokens, (q_heads + 2 kv_heads) * head_dim], rows may be strided
    Tensor q_weight;  // F32 [head_dim]
    Tensor k_weight;  // F32 [head_dim]
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const Norm::Desc& desc, const Norm::Args& args);
Status CheckArgs(const QkNorm::Desc& desc, const QkNorm::Args& args);

// Kernels that make no codes decline forms with some.
Support GivesPlainRows(const Norm::Desc& desc);

Support RefNormSupports(const Norm::Desc& desc, const device::DeviceFacts& facts);
Status RefNorm(device::Stream& stream, const Norm::Desc& desc, const Norm::Args& args);
Support RefQkNormSupports(const QkNorm::Desc& desc, const device::DeviceFacts& facts);
Status RefQkNorm(device::Stream& stream, const QkNorm::Desc& desc, const QkNorm::Args& args);

}  // namespace sluice::ops
