// For tests: which tensors a call of an op names, so that a device of a test can look at where they
// lie.
#pragma once

#include <vector>

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/draft_tokens.h"
#include "ops/embedding.h"
#include "ops/experts.h"
#include "ops/fake_balance_experts.h"
#include "ops/gate.h"
#include "ops/group_quant.h"
#include "ops/grouped_linear.h"
#include "ops/index_scores.h"
#include "ops/latent_attention.h"
#include "ops/linear.h"
#include "ops/map_experts.h"
#include "ops/norm.h"
#include "ops/place_tokens.h"
#include "ops/pool.h"
#include "ops/recurrent.h"
#include "ops/rope_kv.h"
#include "ops/sampling.h"
#include "ops/streams.h"
#include "ops/token_counts.h"
#include "ops/top_k.h"

namespace sluice::ops {

// The tensors of a call, which must all lie in device memory.
using TensorList = std::vector<const Tensor*>;
inline TensorList WithKv(TensorList list, const PagedKv& kv) {
  list.insert(list.end(), {&kv.k, &kv.v, &kv.k_scale, &kv.v_scale});
  return list;
}
inline TensorList TensorsOf(const GatedActivation::Args& a) { return {&a.gate_up, &a.out}; }
inline TensorList TensorsOf(const PlainActivation::Args& a) { return {&a.x}; }
inline TensorList TensorsOf(const Pool::Args& a) { return {&a.x, &a.query_start, &a.out}; }
inline TensorList TensorsOf(const SoftCap::Args& a) { return {&a.x}; }
inline TensorList TensorsOf(const Embedding::Args& a) { return {&a.ids, &a.table, &a.out}; }
inline TensorList TensorsOf(const GatherRows::Args& a) { return {&a.x, &a.rows, &a.out}; }
inline TensorList TensorsOf(const ResolveTokens::Args& a) { return {&a.ids, &a.previous}; }
inline TensorList TensorsOf(const PlaceTokens::Args& a) {
  return {&a.query_start, &a.unsure,     &a.first,      &a.slots,  &a.lengths,
          &a.told_start,  &a.told_first, &a.told,       &a.tables, &a.positions,
          &a.context,     &a.kv_slots,   &a.block_table};
}
inline TensorList TensorsOf(const NextTokens::Args& a) {
  return {&a.token_ids, &a.query_start, &a.positions, &a.slots, &a.next, &a.drafting,
          &a.lengths,   &a.known,       &a.ids,       &a.rows,  &a.first};
}
inline TensorList TensorsOf(const KeepGuesses::Args& a) {
  return {&a.outputs, &a.slots, &a.target_ids, &a.known, &a.ids, &a.first};
}
inline TensorList TensorsOf(const Linear::Args& a) {
  return {&a.x, &a.weight->data, &a.bias, &a.residual, &a.out, &a.x_scales};
}
inline TensorList TensorsOf(const GroupQuant::Args& a) {
  return {&a.x, &a.counts, &a.codes, &a.scales};
}
inline TensorList TensorsOf(const Norm::Args& a) {
  return {&a.x, &a.residual, &a.weight, &a.bias, &a.out, &a.codes, &a.code_scales};
}
inline TensorList TensorsOf(const QkNorm::Args& a) { return {&a.qkv, &a.q_weight, &a.k_weight}; }
inline TensorList TensorsOf(const RopeKv::Args& a) {
  return WithKv({&a.qkv, &a.positions, &a.table, &a.slots, &a.q_out}, a.kv);
}
inline TensorList TensorsOf(const Attention::Args& a) {
  return WithKv({&a.q, &a.query_start, &a.context, &a.block_table, &a.sinks, &a.slopes, &a.bias,
                 &a.out, &a.plan},
                a.kv);
}
inline TensorList TensorsOf(const LatentAttention::Args& a) {
  return WithKv({&a.q, &a.query_start, &a.context, &a.block_table, &a.listed, &a.out}, a.kv);
}
inline TensorList TensorsOf(const IndexScores::Args& a) {
  return WithKv(
      {&a.q, &a.weights, &a.query_start, &a.context, &a.block_table, &a.scores, &a.lengths}, a.kv);
}
inline TensorList TensorsOf(const TopK::Args& a) { return {&a.scores, &a.lengths, &a.positions}; }
inline TensorList TensorsOf(const ShortConv::Args& a) {
  return {&a.x, &a.weight, &a.bias, &a.state, &a.query_start, &a.context, &a.block_table, &a.out};
}
inline TensorList TensorsOf(const Ssd::Args& a) {
  return {&a.vkq,   &a.dt,          &a.dt_bias, &a.a,           &a.skip,
          &a.state, &a.query_start, &a.context, &a.block_table, &a.out};
}
inline TensorList TensorsOf(const SelectiveScan::Args& a) {
  return {&a.x,     &a.dt,          &a.bc,      &a.dt_bias,     &a.a,  &a.skip,
          &a.state, &a.query_start, &a.context, &a.block_table, &a.out};
}
inline TensorList TensorsOf(const GatedDelta::Args& a) {
  return {&a.qkv,         &a.ba,      &a.dt_bias,     &a.a_log, &a.state,
          &a.query_start, &a.context, &a.block_table, &a.out};
}
inline TensorList TensorsOf(const GatedNorm::Args& a) { return {&a.x, &a.gate, &a.weight, &a.out}; }
inline TensorList TensorsOf(const SigmoidGate::Args& a) { return {&a.x, &a.gate}; }
inline TensorList TensorsOf(const SigmoidGateScaleAdd::Args& a) {
  return {&a.x, &a.gate, &a.residual, &a.out};
}
inline TensorList TensorsOf(const GaussianTopK::Args& a) { return {&a.x}; }
inline TensorList TensorsOf(const PredictStreams::Args& a) {
  return {&a.streams, &a.added, &a.routes, &a.coefficients, &a.out};
}
inline TensorList TensorsOf(const CorrectStreams::Args& a) {
  return {&a.streams, &a.x, &a.routes, &a.coefficients, &a.scale, &a.out};
}
inline TensorList TensorsOf(const LevelStreams::Args& a) { return {&a.streams, &a.out}; }
inline TensorList TensorsOf(const RouteExperts::Args& a) {
  return {&a.logits, &a.bias, &a.ids, &a.weights};
}
inline TensorList TensorsOf(const FakeBalanceExperts::Args& a) { return {&a.ids, &a.weights}; }
inline TensorList TensorsOf(const MapExperts::Args& a) {
  return {&a.token_ids, &a.positions, &a.map, &a.ids, &a.counts, &a.counted};
}
inline TensorList TensorsOf(const GroupExperts::Args& a) {
  return {&a.ids, &a.starts, &a.tokens, &a.places, &a.counts, &a.counted};
}
inline TensorList TensorsOf(const GroupedLinear::Args& a) {
  return {&a.x, &a.tokens, &a.starts, &a.weight->data, &a.bias, &a.out, &a.x_scales};
}
inline TensorList TensorsOf(const ScaleExperts::Args& a) { return {&a.x, &a.weights, &a.places}; }
inline TensorList TensorsOf(const CombineExperts::Args& a) {
  return {&a.y, &a.weights, &a.places, &a.residual, &a.out};
}
inline TensorList TensorsOf(const Sample::Args& a) {
  return {&a.logits,  &a.rows,    &a.edits,        &a.counts,       &a.masks,
          &a.outputs, &a.top_ids, &a.top_logprobs, &a.distributions};
}
inline TensorList TensorsOf(const SetCounts::Args& a) { return {&a.rows, &a.words, &a.counts}; }
inline TensorList TensorsOf(const ResolveRows::Args& a) { return {&a.rows, &a.lengths, &a.tokens}; }
inline TensorList TensorsOf(const KeepDrawn::Args& a) {
  return {&a.rows, &a.outputs, &a.counts, &a.lengths, &a.tokens};
}

}  // namespace sluice::ops
