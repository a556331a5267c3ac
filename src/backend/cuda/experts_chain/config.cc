#include "backend/cuda/experts_chain/config.h"

#include <algorithm>

#include "backend/cuda/experts_chain/params.h"

namespace sluice::cuda {
namespace {

using ops::ExpertsChain;
using ops::Support;

constexpr int kSharedMax = 227 * 1024;
// As dense chains have it.
constexpr int kAskedMax = 5;

int CodeBytes(int64_t k) { return ChainCodeBytes(kExpertsChainTokens, static_cast<int>(k)); }
// All choices' codes for the second products.
int GatedStages(const ExpertsChain::Desc& desc) {
  return desc.route.top_k * ExpertStages(static_cast<int>(desc.width));
}

Support Products(const ExpertsChain::Desc& desc) {
  if (desc.weight != DType::kF8E4M3 || desc.weight_scales != ops::WeightScales::kBlock ||
      desc.x_scales != ops::ActivationScales::kBlock) {
    return Support::No("not an F8 weight with scales of blocks on activations with such");
  }
  if (desc.activation != DType::kBF16)
    return Support::No(StrCat("activations in ", Name(desc.activation)));
  if (desc.router != DType::kBF16) return Support::No(StrCat("a router in ", Name(desc.router)));
  if (desc.kind != ops::Activation::kSilu) return Support::No(StrCat("has no ", Name(desc.kind)));
  for (const int64_t k : {desc.attended, desc.hidden}) {
    if (k < 1 || k % kChainStageK != 0 || k > int64_t{kChainUnitsMax} * kChainUnit)
      return Support::No(StrCat("rows of ", k, ", no multiple of ", kChainStageK, " up to ",
                                kChainUnitsMax * kChainUnit));
  }
  if (desc.hidden > kChainHiddenMax)
    return Support::No(StrCat("norms of ", desc.hidden, ", more than ", kChainHiddenMax));
  if (desc.qkv % kChainSlab != 0 || desc.qkv < 0 || desc.qkv > (int64_t{1} << 24))
    return Support::No(StrCat(desc.qkv, " columns of QKV, no multiple of ", kChainSlab));
  return Support::Yes();
}

}  // namespace

Support SupportsExpertsChain(const ExpertsChain::Desc& desc, int compute_units) {
  if (Support products = Products(desc); !products.ok) return products;
  // Warps take eight numbers of a choice to a lane.
  constexpr int64_t kWarpNumbers = 32 * 8;
  const int64_t widest = int64_t{kChainUnitsMax} * kChainUnit;
  if (desc.width < 1 || desc.width % kWarpNumbers != 0 || desc.width > widest ||
      desc.route.top_k > kExpertsChainTopKMax ||
      GatedStages(desc) * kChainStageUnits > kChainUnitsMax) {
    return Support::No(StrCat(desc.route.top_k, " experts of ", desc.width, ": at most ",
                              kExpertsChainTopKMax, ", multiples of ", kWarpNumbers, ", ", widest,
                              " in all"));
  }
  if (desc.route.experts % kChainSlab != 0 || desc.route.experts > kExpertsChainMax) {
    return Support::No(StrCat(desc.route.experts, " experts, no multiple of ", kChainSlab,
                              " up to ", kExpertsChainMax));
  }
  if (desc.hidden > int64_t{kChainSlab} * kExpertsChainSlabsMax * compute_units)
    return Support::No(StrCat("rows of ", desc.hidden, " on ", compute_units, " units"));
  return Support::Yes();
}

ExpertsChainPlan PlanExpertsChain(const ExpertsChain::Desc& desc) {
  ExpertsChainPlan plan;
  plan.row_at = CodeBytes(desc.hidden);
  plan.code_bytes = std::max({CodeBytes(desc.attended), CodeBytes(GatedStages(desc) * kChainStageK),
                              plan.row_at + RouterRowBytes(static_cast<int>(desc.hidden))});
  const int found = static_cast<int>(sizeof(RoutedToken));
  // The barriers end at a multiple of 8, and what was found begins with words.
  const int rest = plan.code_bytes + ChainRestBytes(kExpertsChainTokens) + found;
  plan.stages = std::min((kSharedMax - rest) / kChainStageBytes, kChainStagesMax);
  plan.asked_max = std::min(kAskedMax, plan.stages);
  plan.routed_at = plan.stages * kChainStageBytes + rest - found;
  plan.shared_bytes = plan.routed_at + found;
  return plan;
}

}  // namespace sluice::cuda
