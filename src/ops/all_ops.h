// Every op, in one list, for what goes over all of them: a new op is named here once. Any thread.
#pragma once

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/dense_chain.h"
#include "ops/draft_tokens.h"
#include "ops/embedding.h"
#include "ops/experts.h"
#include "ops/experts_chain.h"
#include "ops/fake_balance_experts.h"
#include "ops/gate.h"
#include "ops/group_quant.h"
#include "ops/grouped_gate.h"
#include "ops/grouped_linear.h"
#include "ops/guess_trees.h"
#include "ops/index_scores.h"
#include "ops/latent_attention.h"
#include "ops/linear.h"
#include "ops/map_experts.h"
#include "ops/norm.h"
#include "ops/normed_rope_kv.h"
#include "ops/place_tokens.h"
#include "ops/pool.h"
#include "ops/recurrent.h"
#include "ops/rope_kv.h"
#include "ops/sampling.h"
#include "ops/streams.h"
#include "ops/token_counts.h"
#include "ops/top_k.h"

namespace sluice::ops {

template <class... Ops>
struct OpList {
  // Calls run<Op>() for each, in their order.
  template <class Run>
  static void ForEach(Run&& run) {
    (run.template operator()<Ops>(), ...);
  }
};

using AllOps =
    OpList<Linear, DenseChain, ExpertsChain, GroupedLinear, GroupedGate, Attention, LatentAttention,
           IndexScores, TopK, Norm, QkNorm, GroupQuant, RopeKv, NormedRopeKv, GatedActivation,
           PlainActivation, SoftCap, Embedding, GatherRows, ResolveTokens, RouteExperts,
           GroupExperts, ScaleExperts, CombineExperts, FakeBalanceExperts, MapExperts, GatedNorm,
           SigmoidGate, SigmoidGateScaleAdd, GaussianTopK, PredictStreams, CorrectStreams,
           LevelStreams, ShortConv, GatedDelta, Ssd, SelectiveScan, Pool, PlaceTokens, Sample,
           SetCounts, ResolveRows, KeepDrawn, NextTokens, KeepGuesses, FollowTrees, GrowTrees>;

}  // namespace sluice::ops
