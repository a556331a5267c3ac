// FakeBalanceExperts: what route_experts chose, replaced by choices in perfect balance: for load
// tests, which ask how fast a model would be if all experts had equally many tokens. A step of its
// own behind the routing, which stays what it is; models bind it only when asked to. What a model
// answers means nothing then, and depends on what else is in the step.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// ids[t, i] = (t * top_k + i) mod experts, weights[t, i] = 1 / top_k: no two choices of a token are
// the same, and no expert has two choices more than another.
struct FakeBalanceExperts {
  static constexpr std::string_view kName = "fake_balance_experts";
  struct Desc {
    int experts = 0;
    int top_k = 0;
    std::string ToString() const;
  };
  struct Args {
    Tensor ids;      // I32 [tokens, top_k]
    Tensor weights;  // F32 [tokens, top_k]
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const FakeBalanceExperts::Desc& desc, const FakeBalanceExperts::Args& args);

Support RefFakeBalanceExpertsSupports(const FakeBalanceExperts::Desc& desc,
                                      const device::DeviceFacts& facts);
Status RefFakeBalanceExperts(device::Stream& stream, const FakeBalanceExperts::Desc& desc,
                             const FakeBalanceExperts::Args& args);

}  // namespace sluice::ops
