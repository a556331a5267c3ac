#include <algorithm>
#include <bit>
#include <vector>

#include "ops/attention.h"
#include "ops/guess_trees.h"
#include "ops/sample_row.h"

namespace sluice::ops {

Support RefFollowTreesSupports(const FollowTrees::Desc&, const device::DeviceFacts&) {
  return Support::Yes();
}
Support RefGrowTreesSupports(const GrowTrees::Desc&, const device::DeviceFacts&) {
  return Support::Yes();
}

namespace {

// How many rows before it the row stands that a token of a tree follows.
int32_t BackToParent(const int32_t* path) {
  const int32_t count = path[0];
  if (count == 0) return 1;
  return 1 + path[count] - (count > 1 ? path[count - 1] : 0);
}

// A sequence with tokens [begin, end) whose tree begins at token `root`, and row `row`.
void Follow(const FollowTrees::Args& args, int32_t slot, int32_t root, int32_t end, int64_t row) {
  const auto* const ids = args.token_ids.ptr<int32_t>();
  const auto* const outputs = args.outputs.ptr<SampleOutput>() + row;
  std::vector<int32_t> order = {root}, others;
  for (int32_t t = root + 1; t < end; ++t) {
    const int32_t last = order.back();
    const SampleOutput& drawn = outputs[last - root];
    const bool follows = t - BackToParent(PathOf(args.paths, t)) == last;
    const bool right = follows && !drawn.degenerate && drawn.token == ids[t];
    (right ? order : others).push_back(t);
  }
  const auto kept = static_cast<int32_t>(order.size());
  if (slot >= 0 && slot < args.lengths.dims[0]) {
    args.lengths.ptr<int32_t>()[slot] = args.positions.ptr<int32_t>()[root] + kept;
    args.known.ptr<int32_t>()[slot * args.known.strides[0]] = outputs[order.back() - root].token;
  }
  order.insert(order.end(), others.begin(), others.end());
  for (int32_t t = root; t < end; ++t) {
    args.order.ptr<int32_t>()[t] = order[static_cast<size_t>(t - root)];
    args.ids.ptr<int32_t>()[t] = ids[order[static_cast<size_t>(t - root)]];
    args.places.ptr<int32_t>()[t] = args.positions.ptr<int32_t>()[root] + t - root;
  }
}

}  // namespace

Status RefFollowTrees(device::Stream&, const FollowTrees::Desc& desc,
                      const FollowTrees::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t tokens = args.ids.dims[0], rows = args.logits_rows.dims[0];
  for (int64_t t = 0; t < tokens; ++t) args.order.ptr<int32_t>()[t] = static_cast<int32_t>(t);
  std::copy_n(args.token_ids.ptr<int32_t>(), tokens, args.ids.ptr<int32_t>());
  std::copy_n(args.positions.ptr<int32_t>(), tokens, args.places.ptr<int32_t>());
  const auto* const start = args.query_start.ptr<int32_t>();
  const auto* const of_row = args.logits_rows.ptr<int32_t>();
  for (int64_t s = 0; s < args.slots.dims[0]; ++s) {
    const int32_t begin = start[s], end = start[s + 1];
    if (begin >= end || PathOf(args.paths, end - 1)[0] == 0) continue;
    const auto* const row = std::find_if(
        of_row, of_row + rows, [&](int32_t token) { return token >= begin && token < end; });
    const int64_t r = row - of_row;
    if (r == rows || r + end - *row > rows) continue;
    Follow(args, args.slots.ptr<int32_t>()[s], *row, end, r);
  }
  return OkStatus();
}

namespace {

struct Grown {
  float together = 0.0f;  // of all that leads there
  int32_t row = 0, token = 0, node = 0;
};

// The new nodes of draft d, which are written, in their order.
std::vector<Grown> NewNodes(const GrowTrees::Args& args, int64_t d) {
  const int64_t from = args.depth == 1 ? 1 : args.next_beams.dims[1];
  std::vector<Grown> grown;
  for (int64_t row = d * from; row < (d + 1) * from; ++row) {
    const int32_t* const beam =
        args.depth == 1 ? nullptr : args.beams.ptr<int32_t>() + row * GrowTrees::kBeamNumbers;
    const SampleOutput& output = args.outputs.ptr<SampleOutput>()[row];
    for (int64_t c = 0; c < args.top_ids.dims[1]; ++c) {
      const int64_t at = row * args.top_ids.strides[0] + c;
      int32_t id = output.degenerate ? output.token : args.top_ids.ptr<int32_t>()[at];
      if (!args.target_ids.empty()) {
        const bool known = id >= 0 && id < args.target_ids.dims[0];
        id = known ? args.target_ids.ptr<int32_t>()[id] : 0;
      }
      const float given = args.top_logprobs.ptr<float>()[row * args.top_logprobs.strides[0] + c];
      const bool likely = !output.degenerate && given > GrowTrees::kLogProbMin;
      const float logprob = likely ? given : GrowTrees::kLogProbMin;
      const float before = beam == nullptr ? 0.0f : std::bit_cast<float>(beam[1]);
      const auto number = args.begin + static_cast<int32_t>(grown.size());
      int32_t* const node =
          args.nodes.ptr<int32_t>() + d * args.nodes.strides[0] + number * GrowTrees::kNodeNumbers;
      node[0] = id;
      node[1] = beam == nullptr ? 0 : beam[0];
      node[2] = std::bit_cast<int32_t>(logprob);
      grown.push_back({before + logprob, static_cast<int32_t>(row), id, number + 1});
    }
  }
  return grown;
}

}  // namespace

Status RefGrowTrees(device::Stream&, const GrowTrees::Desc& desc, const GrowTrees::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t beams = args.next_beams.dims[1], from = args.depth == 1 ? 1 : beams;
  for (int64_t d = 0; d < args.slots.dims[0]; ++d) {
    const int32_t slot = args.slots.ptr<int32_t>()[d];
    int32_t* const next = args.next_beams.ptr<int32_t>() + d * beams * GrowTrees::kBeamNumbers;
    int32_t* const paths = args.next_paths.ptr<int32_t>() + d * beams * kPathNumbers;
    std::fill_n(next, beams * GrowTrees::kBeamNumbers, 0);
    std::fill_n(paths, beams * kPathNumbers, 0);
    std::fill_n(args.ids.ptr<int32_t>() + d * beams, beams, 0);
    std::fill_n(args.order.ptr<int32_t>() + d * beams, beams, static_cast<int32_t>(d * from));
    if (slot < 0 || slot >= args.slot_count) continue;
    args.first.ptr<int32_t>()[d] += args.moved;
    std::vector<Grown> grown = NewNodes(args, d);
    // The earlier one, where two are as likely.
    std::stable_sort(grown.begin(), grown.end(),
                     [](const Grown& a, const Grown& b) { return a.together > b.together; });
    for (int64_t b = 0; b < beams; ++b) {
      const Grown& best = grown[static_cast<size_t>(b)];
      next[b * GrowTrees::kBeamNumbers] = best.node;
      next[b * GrowTrees::kBeamNumbers + 1] = std::bit_cast<int32_t>(best.together);
      args.ids.ptr<int32_t>()[d * beams + b] = best.token;
      args.order.ptr<int32_t>()[d * beams + b] = best.row;
      int32_t* const path = paths + b * kPathNumbers;
      if (args.depth > 1)
        std::copy_n(args.paths.ptr<int32_t>() + best.row * kPathNumbers, args.depth, path);
      // Passes before this one took a place for each of their beams, where they went one position
      // further.
      path[0] = args.depth;
      path[args.depth] = static_cast<int32_t>((args.depth - 1) * (beams - 1) + b);
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
