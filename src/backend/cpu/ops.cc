#include "backend/cpu/ops.h"

#include "backend/cpu/activation/impls.h"
#include "backend/cpu/attention/impls.h"
#include "backend/cpu/embedding/impls.h"
#include "backend/cpu/experts/impls.h"
#include "backend/cpu/gate/impls.h"
#include "backend/cpu/linear/impls.h"
#include "backend/cpu/norm/impls.h"
#include "backend/cpu/recurrent/impls.h"
#include "backend/cpu/rope_kv/impls.h"
#include "backend/cpu/sampling/impls.h"
#include "backend/cpu/streams/impls.h"
#include "ops/dense_chain.h"
#include "ops/draft_tokens.h"
#include "ops/embedding.h"
#include "ops/experts_chain.h"
#include "ops/group_quant.h"
#include "ops/grouped_gate.h"
#include "ops/guess_trees.h"
#include "ops/normed_rope_kv.h"
#include "ops/place_tokens.h"
#include "ops/pool.h"

namespace sluice::cpu {

void RegisterCpuOps(ops::OpTable& table) {
  RegisterNorm(table);
  RegisterActivation(table);
  // No product of the CPU reads codes that another op has made.
  table.Add<ops::GroupQuant>({.name = "ref_per_token_group_quant",
                              .supports = &ops::RefGroupQuantSupports,
                              .run = &ops::RefGroupQuant,
                              .slow = &ops::PlainLoops<ops::GroupQuant>});
  // For devices on which ops take long to start; the ops that it consists of are faster here.
  table.Add<ops::DenseChain>({.name = "ref_dense_chain",
                              .supports = &ops::RefDenseChainSupports,
                              .run = &ops::RefDenseChain,
                              .slow = &ops::PlainLoops<ops::DenseChain>});
  table.Add<ops::ExpertsChain>({.name = "ref_experts_chain",
                                .supports = &ops::RefExpertsChainSupports,
                                .run = &ops::RefExpertsChain,
                                .slow = &ops::PlainLoops<ops::ExpertsChain>});
  table.Add<ops::GroupedGate>({.name = "ref_grouped_gate",
                               .supports = &ops::RefGroupedGateSupports,
                               .run = &ops::RefGroupedGate,
                               .slow = &ops::PlainLoops<ops::GroupedGate>});
  RegisterRopeKv(table);
  table.Add<ops::NormedRopeKv>({.name = "ref_normed_rope_kv",
                                .supports = &ops::RefNormedRopeKvSupports,
                                .run = &ops::RefNormedRopeKv,
                                .slow = &ops::PlainLoops<ops::NormedRopeKv>});
  RegisterEmbedding(table);
  // Rows are copied once per sequence: nothing to gain beside the other ops.
  table.Add<ops::GatherRows>({"ref_gather_rows", &ops::RefGatherRowsSupports, &ops::RefGatherRows});
  table.Add<ops::Pool>({"ref_pool", &ops::RefPoolSupports, &ops::RefPool});
  table.Add<ops::ResolveTokens>(
      {"ref_resolve_tokens", &ops::RefResolveTokensSupports, &ops::RefResolveTokens});
  // Numbers that a step is told and copies of them, which take no time beside the rest.
  table.Add<ops::PlaceTokens>(
      {"ref_place_tokens", &ops::RefPlaceTokensSupports, &ops::RefPlaceTokens});
  table.Add<ops::NextTokens>({"ref_next_tokens", &ops::RefNextTokensSupports, &ops::RefNextTokens});
  table.Add<ops::KeepGuesses>(
      {"ref_keep_guesses", &ops::RefKeepGuessesSupports, &ops::RefKeepGuesses});
  table.Add<ops::FollowTrees>(
      {"ref_follow_trees", &ops::RefFollowTreesSupports, &ops::RefFollowTrees});
  table.Add<ops::GrowTrees>({"ref_grow_trees", &ops::RefGrowTreesSupports, &ops::RefGrowTrees});
  RegisterAttention(table);
  RegisterRecurrent(table);
  RegisterGate(table);
  RegisterStreams(table);
  RegisterExperts(table);
  RegisterLinear(table);
  RegisterSampling(table);
}

}  // namespace sluice::cpu
