#include "ops/call_work.h"

#include <algorithm>
#include <boost/pfr.hpp>
#include <cmath>
#include <type_traits>

#include "base/str_cat.h"
#include "ops/all_ops.h"

namespace sluice::ops {
namespace {

struct Need {
  double bytes = 0, flops = 0;
};

double BytesOf(const Tensor& tensor) {
  if (tensor.empty()) return 0;
  return static_cast<double>(RowBytes(tensor.dtype, static_cast<size_t>(tensor.size())));
}
template <class... Tensors>
double BytesOf(const Tensor& first, const Tensors&... others) {
  return BytesOf(first) + (BytesOf(others) + ...);
}

// Every tensor of the call once.
template <class Args>
double BytesOfAll(const Args& args) {
  double bytes = 0;
  boost::pfr::for_each_field(args, [&bytes](const auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Tensor>) bytes += BytesOf(field);
  });
  return bytes;
}

// Most ops go over their arguments and are held against nothing else.
template <class Desc, class Args>
Need NeedOf(const Desc&, const Args& args, const StepSizes&) {
  return {BytesOfAll(args)};
}

// What is changed in place is read and written.
Need NeedOf(const Norm::Desc& desc, const Norm::Args& args, const StepSizes&) {
  return {BytesOfAll(args) + (desc.add ? BytesOf(args.residual) : 0)};
}
Need NeedOf(const QkNorm::Desc& desc, const QkNorm::Args& args, const StepSizes&) {
  const double heads = desc.q_heads + desc.kv_heads, all = heads + desc.kv_heads;
  return {2 * BytesOf(args.qkv) * heads / all + BytesOf(args.q_weight, args.k_weight)};
}
Need NeedOf(const PlainActivation::Desc&, const PlainActivation::Args& args, const StepSizes&) {
  return {2 * BytesOf(args.x)};
}
Need NeedOf(const SoftCap::Desc&, const SoftCap::Args& args, const StepSizes&) {
  return {2 * BytesOf(args.x)};
}
Need NeedOf(const GaussianTopK::Desc&, const GaussianTopK::Args& args, const StepSizes&) {
  return {2 * BytesOf(args.x)};
}
Need NeedOf(const PredictStreams::Desc&, const PredictStreams::Args& args, const StepSizes&) {
  return {BytesOfAll(args) + BytesOf(args.streams)};
}
Need NeedOf(const CorrectStreams::Desc&, const CorrectStreams::Args& args, const StepSizes&) {
  return {BytesOfAll(args) + BytesOf(args.streams)};
}
Need NeedOf(const LevelStreams::Desc& desc, const LevelStreams::Args& args, const StepSizes&) {
  return {BytesOfAll(args) + (desc.mean ? 0 : BytesOf(args.streams))};
}
Need NeedOf(const SigmoidGate::Desc&, const SigmoidGate::Args& args, const StepSizes&) {
  return {2 * BytesOf(args.x) + BytesOf(args.gate)};
}
Need NeedOf(const ScaleExperts::Desc&, const ScaleExperts::Args& args, const StepSizes&) {
  return {2 * BytesOf(args.x) + BytesOf(args.weights, args.places)};
}

double WeightBytes(const PackedWeight& weight) {
  return BytesOf(weight.data, weight.scales, weight.order);
}

Need NeedOf(const Linear::Desc& desc, const Linear::Args& args, const StepSizes&) {
  return {WeightBytes(*args.weight) + BytesOfAll(args),
          2.0 * static_cast<double>(args.x.dims[0] * desc.n * desc.k)};
}

Need NeedOf(const DenseChain::Desc& desc, const DenseChain::Args& args, const StepSizes&) {
  const double numbers = static_cast<double>(desc.hidden) *
                         static_cast<double>(desc.attended + 3 * desc.width + desc.qkv);
  double weights = 0;
  for (const PackedWeight* weight : {args.w_o, args.w_gate_up, args.w_down, args.w_qkv})
    if (weight != nullptr) weights += WeightBytes(*weight);
  return {weights + BytesOfAll(args), 2.0 * static_cast<double>(args.attended.dims[0]) * numbers};
}

Need NeedOf(const ExpertsChain::Desc& desc, const ExpertsChain::Args& args, const StepSizes&) {
  const double taken = static_cast<double>(desc.route.top_k) / desc.route.experts;
  double weights = WeightBytes(*args.w_o) + WeightBytes(*args.w_router) +
                   taken * (WeightBytes(*args.w_gate_up) + WeightBytes(*args.w_down));
  if (args.w_qkv != nullptr) weights += WeightBytes(*args.w_qkv);
  const double numbers = static_cast<double>(desc.hidden) *
                         static_cast<double>(desc.attended + desc.route.experts + desc.qkv +
                                             3 * desc.route.top_k * desc.width);
  return {weights + BytesOfAll(args), 2.0 * numbers};
}

Need NeedOf(const GroupedLinear::Desc& desc, const GroupedLinear::Args& args, const StepSizes&) {
  const double experts = desc.experts;
  const double product = 2.0 * static_cast<double>(desc.each.n * desc.each.k);
  const auto rows = static_cast<double>(args.out.dims[0]);
  const double taken = desc.by_columns ? experts : experts * (1 - std::pow(1 - 1 / experts, rows));
  return {WeightBytes(*args.weight) * taken / experts + BytesOfAll(args),
          rows * product * (desc.by_columns ? experts : 1)};
}

Need NeedOf(const GroupedGate::Desc& desc, const GroupedGate::Args& args, const StepSizes&) {
  const double experts = desc.products.experts;
  const auto rows = static_cast<double>(args.codes.dims[0]);
  const double taken = 1 - std::pow(1 - 1 / experts, rows);
  return {WeightBytes(*args.weight) * taken + BytesOfAll(args),
          2.0 * rows * static_cast<double>(desc.products.each.n * desc.products.each.k)};
}

// K and V of one position.
double PositionBytes(const KvDesc& kv) {
  const auto bytes = [&kv](int head_dim) {
    return static_cast<double>(RowBytes(kv.dtype, static_cast<size_t>(head_dim))) +
           (KvHasScales(kv.dtype) && head_dim > 0 ? sizeof(float) : 0);
  };
  return kv.kv_heads * (bytes(kv.k_head_dim) + bytes(kv.v_head_dim));
}

// What the rows of a step see: positions, each counted once for a sequence, and pairs of a row and
// a position.
struct Seen {
  double positions = 0, pairs = 0;
};
Seen SeenBy(const Attention::Desc& desc, const StepSizes& step) {
  Seen seen;
  for (size_t s = 0; s < step.contexts.size(); ++s) {
    const int64_t context = step.contexts[s], first = context - step.query_tokens[s];
    if (first == context) continue;
    for (int64_t row = first; row < context; ++row) {
      seen.pairs += static_cast<double>(EndOfVisible(desc, row, context) - FirstVisible(desc, row));
    }
    seen.positions +=
        static_cast<double>(EndOfVisible(desc, context - 1, context) - FirstVisible(desc, first));
  }
  return seen;
}

Need NeedOf(const Attention::Desc& desc, const Attention::Args& args, const StepSizes& step) {
  const Seen seen = SeenBy(desc, step);
  return {BytesOf(args.q, args.out) + seen.positions * PositionBytes(desc.kv),
          2.0 * seen.pairs * desc.q_heads * (desc.kv.k_head_dim + desc.kv.v_head_dim)};
}
// Lists may name any positions: a sequence's rows read at most all of them, and no more than they
// have listed together.
Seen SeenOfLists(const LatentAttention::Desc& desc, const StepSizes& step) {
  Seen seen;
  for (size_t s = 0; s < step.contexts.size(); ++s) {
    const int64_t context = step.contexts[s];
    double pairs = 0;
    for (int64_t row = context - step.query_tokens[s]; row < context; ++row)
      pairs += static_cast<double>(std::min<int64_t>(row + 1, desc.listed_max));
    seen.pairs += pairs;
    seen.positions += std::min(pairs, static_cast<double>(context));
  }
  return seen;
}
Need NeedOf(const LatentAttention::Desc& desc, const LatentAttention::Args& args,
            const StepSizes& step) {
  const Seen seen = desc.listed_max > 0 ? SeenOfLists(desc, step) : SeenBy({}, step);
  return {BytesOf(args.q, args.listed, args.out) + seen.positions * PositionBytes(desc.kv),
          2.0 * seen.pairs * desc.heads * (desc.key_width + desc.value_width)};
}

// The call's rows are some of the step's.
Need NeedOf(const IndexScores::Desc& desc, const IndexScores::Args& args, const StepSizes& step) {
  Seen seen;
  const int64_t first = args.first_row, end = first + args.q.dims[0];
  int64_t start = 0;
  for (size_t s = 0; s < step.contexts.size(); ++s) {
    const int64_t behind = start + step.query_tokens[s], before = step.contexts[s] - behind;
    int64_t positions = 0;
    for (int64_t row = std::max(first, start); row < std::min(end, behind); ++row) {
      positions = before + row + 1;
      seen.pairs += static_cast<double>(positions);
    }
    seen.positions += static_cast<double>(positions);
    start = behind;
  }
  return {BytesOf(args.q, args.weights, args.lengths) + seen.positions * PositionBytes(desc.kv) +
              seen.pairs * sizeof(float),
          2.0 * seen.pairs * desc.heads * (desc.head_dim + 1)};
}

// Q, K and V are read once; Q is written, in place or not, and K and V go to the cache.
Need NeedOf(const RopeKv::Desc& desc, const RopeKv::Args& args, const StepSizes&) {
  const auto tokens = static_cast<double>(args.positions.dims[0]);
  const double in_place = args.q_out.empty() ? BytesOf(args.qkv) : 0;
  return {BytesOf(args.qkv, args.positions, args.slots, args.q_out) + in_place +
          tokens * (PositionBytes(desc.kv) + desc.rotary_dims * sizeof(float))};
}

Need NeedOf(const NormedRopeKv::Desc& desc, const NormedRopeKv::Args& args,
            const StepSizes& sizes) {
  const Need rope = NeedOf(desc.rope, RopeArgsOf(args, args.qkv), sizes);
  return {rope.bytes + BytesOf(args.q_weight, args.k_weight)};
}

Need NeedOf(const Embedding::Desc& desc, const Embedding::Args& args, const StepSizes&) {
  const auto row = static_cast<double>(RowBytes(desc.table, static_cast<size_t>(desc.hidden)));
  return {BytesOf(args.ids, args.out) + static_cast<double>(args.ids.size()) * row};
}
Need NeedOf(const GatherRows::Desc&, const GatherRows::Args& args, const StepSizes&) {
  return {2 * BytesOf(args.out) + BytesOf(args.rows)};
}

// The state of each sequence is read and written, beside what the tokens have.
template <class Desc, class Args>
Need RecurrentNeed(const Desc& desc, const Args& args, double flops_of_token) {
  const auto sequences = static_cast<double>(args.context.dims[0]);
  Args tokens = args;
  tokens.state = {};
  return {BytesOfAll(tokens) + 2 * sequences * static_cast<double>(desc.numbers()) * sizeof(float),
          static_cast<double>(args.out.dims[0]) * flops_of_token};
}
Need NeedOf(const ShortConv::Desc& desc, const ShortConv::Args& args, const StepSizes&) {
  return RecurrentNeed(desc, args, 2.0 * desc.kernel * static_cast<double>(desc.channels));
}
Need NeedOf(const GatedDelta::Desc& desc, const GatedDelta::Args& args, const StepSizes&) {
  return RecurrentNeed(desc, args, 7.0 * static_cast<double>(desc.numbers()));
}
Need NeedOf(const Ssd::Desc& desc, const Ssd::Args& args, const StepSizes&) {
  return RecurrentNeed(desc, args, 5.0 * static_cast<double>(desc.numbers()));
}
Need NeedOf(const SelectiveScan::Desc& desc, const SelectiveScan::Args& args, const StepSizes&) {
  return RecurrentNeed(desc, args, 7.0 * static_cast<double>(desc.numbers()));
}

// Ops that note a number or choose a token or positions for a row, beside tables of every slot: a
// few bytes.
template <class Op>
inline constexpr bool kCounted =
    !std::is_same_v<Op, PlaceTokens> && !std::is_same_v<Op, SetCounts> &&
    !std::is_same_v<Op, ResolveRows> && !std::is_same_v<Op, KeepDrawn> &&
    !std::is_same_v<Op, NextTokens> && !std::is_same_v<Op, KeepGuesses> &&
    !std::is_same_v<Op, FollowTrees> && !std::is_same_v<Op, GrowTrees> &&
    !std::is_same_v<Op, ResolveTokens> && !std::is_same_v<Op, TopK>;

Need NeedOf(const Sample::Desc&, const Sample::Args& args, const StepSizes&) {
  return {BytesOf(args.logits, args.rows, args.outputs, args.distributions)};
}

template <class Op>
void Describe(const CallOf<Op>& call, const StepSizes& step, CallWork* work) {
  work->shape = call.desc.ToString();
  if constexpr (std::is_same_v<Op, Linear>) work->shape += StrCat(", ", call.args.x.dims[0]);
  if constexpr (!kCounted<Op>) return;
  const Need need = NeedOf(call.desc, call.args, step);
  work->known = true;
  work->bytes = need.bytes;
  work->flops = need.flops;
}

}  // namespace

CallWork WorkOf(const ObservedCall& call, const StepSizes& step) {
  CallWork work;
  AllOps::ForEach([&]<class Op>() {
    if (call.op == Op::kName) Describe(static_cast<const CallOf<Op>&>(call), step, &work);
  });
  return work;
}

}  // namespace sluice::ops
