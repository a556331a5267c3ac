#include "backend/cuda/dense_chain/config.h"

#include <algorithm>

#include "backend/cuda/dense_chain/params.h"
#include "base/check.h"

namespace sluice::cuda {
namespace {

using ops::DenseChain;

constexpr int kSharedMax = 227 * 1024;
// As many as keep the memory busy. With more, what thread blocks write to each other waits behind
// them; measured on an H200.
constexpr int kAskedMax = 5;

int64_t Longest(const DenseChain::Desc& desc) {
  return std::max({desc.attended, desc.hidden, desc.width});
}
// The kernel is made for 2 tokens and for 4.
int ColumnsOf(int64_t tokens) { return tokens <= 2 ? 2 : 4; }

int Stages(const DenseChain::Desc& desc, int64_t tokens) {
  const int columns = ColumnsOf(tokens);
  const int64_t codes = ChainCodeBytes(columns, static_cast<int>(Longest(desc)));
  const int64_t room = kSharedMax - codes - ChainRestBytes(columns);
  return static_cast<int>(std::clamp<int64_t>(room / kChainStageBytes, 0, kChainStagesMax));
}

}  // namespace

ops::Support SupportsChain(const DenseChain::Desc& desc) {
  if (desc.weight != DType::kF8E4M3 || desc.weight_scales != ops::WeightScales::kBlock ||
      desc.x_scales != ops::ActivationScales::kBlock) {
    return ops::Support::No("not an F8 weight with scales of blocks on activations with such");
  }
  if (desc.activation != DType::kBF16)
    return ops::Support::No(StrCat("activations in ", Name(desc.activation)));
  if (desc.kind != ops::Activation::kSilu)
    return ops::Support::No(StrCat("has no ", Name(desc.kind)));
  if (desc.tokens < 1 || desc.tokens > kChainTokensMax)
    return ops::Support::No(StrCat(desc.tokens, " tokens, more than ", kChainTokensMax));
  for (const int64_t k : {desc.attended, desc.hidden, desc.width}) {
    if (k < 1 || k % kChainStageK != 0 || k > int64_t{kChainUnitsMax} * kChainUnit)
      return ops::Support::No(StrCat("rows of ", k, ", no multiple of ", kChainStageK, " up to ",
                                     kChainUnitsMax * kChainUnit));
  }
  if (desc.hidden > kChainHiddenMax)
    return ops::Support::No(StrCat("norms of ", desc.hidden, ", more than ", kChainHiddenMax));
  if (desc.qkv % kChainSlab != 0 || desc.qkv < 0 || desc.qkv > (int64_t{1} << 24))
    return ops::Support::No(StrCat(desc.qkv, " columns of QKV, no multiple of ", kChainSlab));
  return ops::Support::Yes();
}

ChainPlan PlanChain(const DenseChain::Desc& desc, int tokens) {
  const int columns = ColumnsOf(tokens);
  ChainPlan plan;
  plan.function = columns == 2 ? "f8_dense_chain_2" : "f8_dense_chain_4";
  plan.stages = Stages(desc, tokens);
  CHECK(plan.stages >= kAskedMax, "codes leave room for ", plan.stages, " stages of weights");
  plan.asked_max = kAskedMax;
  plan.code_bytes = ChainCodeBytes(columns, static_cast<int>(Longest(desc)));
  plan.shared_bytes = plan.stages * kChainStageBytes + plan.code_bytes + ChainRestBytes(columns);
  return plan;
}

}  // namespace sluice::cuda
