// What the plain-loop references take, as far as several ops say the same.
#pragma once

#include <algorithm>

#include "ops/element.h"
#include "ops/experts.h"
#include "ops/op.h"
#include "ops/paged_kv.h"

namespace sluice::ops {

inline Support SupportsActivation(DType activation) {
  if (IsPlainFloat(activation)) return Support::Yes();
  return Support::No(StrCat("activations of ", Name(activation), " are not supported"));
}

// Of an op that reads or writes the KV.
inline Support SupportsKv(DType activation, const KvDesc& kv) {
  if (Support plain = SupportsActivation(activation); !plain.ok) return plain;
  if (!IsKvFormat(kv.dtype))
    return Support::No(StrCat("KV of ", Name(kv.dtype), " is not supported"));
  if (kv.layout == KvLayoutId::kHeadsTokensDim) return Support::Yes();
  return Support::No(StrCat("KV layout ", static_cast<uint32_t>(kv.layout), " is not supported"));
}

// So many experts of a token.
inline Support SupportsTopExperts(int top_k, int experts) {
  if (experts >= 1 && experts <= kExpertsMax && top_k >= 1 &&
      top_k <= std::min(experts, kExpertsPerTokenMax)) {
    return Support::Yes();
  }
  return Support::No(StrCat(top_k, " of ", experts, " experts"));
}

}  // namespace sluice::ops
