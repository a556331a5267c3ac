#include "ops/guess_trees.h"

#include "ops/attention.h"
#include "ops/check_args.h"
#include "ops/sample_row.h"

namespace sluice::ops {

std::string FollowTrees::Desc::ToString() const { return "tokens"; }
std::string GrowTrees::Desc::ToString() const { return "tokens"; }

Status CheckArgs(const FollowTrees::Desc&, const FollowTrees::Args& args) {
  const auto size = [](const Tensor& t) { return t.rank == 1 ? t.dims[0] : -1; };
  const int64_t tokens = size(args.token_ids), sequences = size(args.slots);
  const int64_t rows = size(args.logits_rows), slots = size(args.lengths);
  ArgsChecker check(FollowTrees::kName, args.ids);
  check.Expect("token_ids", args.token_ids, DType::kI32, {tokens})
      .Expect("query_start", args.query_start, DType::kI32, {sequences + 1})
      .Expect("positions", args.positions, DType::kI32, {tokens})
      .Expect("slots", args.slots, DType::kI32, {sequences})
      .Expect("paths", args.paths, DType::kI32, {tokens, kPathNumbers})
      .Expect("logits_rows", args.logits_rows, DType::kI32, {rows})
      .Expect("outputs", args.outputs, DType::kU8, {rows, int64_t{sizeof(SampleOutput)}})
      .Expect("lengths", args.lengths, DType::kI32, {slots})
      .Expect("known", args.known, DType::kI32, {slots, -1})
      .Expect("order", args.order, DType::kI32, {tokens})
      .Expect("ids", args.ids, DType::kI32, {tokens})
      .Expect("places", args.places, DType::kI32, {tokens})
      .ExpectApart("token_ids", args.token_ids, "ids", args.ids)
      .ExpectApart("positions", args.positions, "places", args.places);
  if (check.ok() && args.known.dims[1] < 1) check.Fail("known has no column");
  return check.status();
}

Status CheckArgs(const GrowTrees::Desc&, const GrowTrees::Args& args) {
  const int64_t drafts = args.slots.rank == 1 ? args.slots.dims[0] : -1;
  const int64_t beams = args.next_beams.rank == 3 ? args.next_beams.dims[1] : -1;
  const int64_t from = args.depth <= 1 ? 1 : beams;
  const int64_t children = args.top_ids.rank == 2 ? args.top_ids.dims[1] : -1;
  ArgsChecker check(GrowTrees::kName, args.ids);
  check.Expect("outputs", args.outputs, DType::kU8, {drafts * from, int64_t{sizeof(SampleOutput)}})
      .Expect("top_ids", args.top_ids, DType::kI32, {drafts * from, children})
      .Expect("top_logprobs", args.top_logprobs, DType::kF32, {drafts * from, children})
      .Expect("slots", args.slots, DType::kI32, {drafts})
      .ExpectIf(!args.target_ids.empty(), "target_ids", args.target_ids, DType::kI32, {-1})
      .Expect("nodes", args.nodes, DType::kI32, {drafts, -1, GrowTrees::kNodeNumbers})
      .Expect("next_beams", args.next_beams, DType::kI32, {drafts, beams, GrowTrees::kBeamNumbers})
      .Expect("next_paths", args.next_paths, DType::kI32, {drafts * beams, kPathNumbers})
      .Expect("ids", args.ids, DType::kI32, {drafts * beams})
      .Expect("order", args.order, DType::kI32, {drafts * beams})
      .Expect("first", args.first, DType::kI32, {drafts});
  if (args.depth > 1) {
    check.Expect("beams", args.beams, DType::kI32, {drafts, beams, GrowTrees::kBeamNumbers})
        .Expect("paths", args.paths, DType::kI32, {drafts * beams, kPathNumbers})
        .ExpectApart("beams", args.beams, "next_beams", args.next_beams)
        .ExpectApart("paths", args.paths, "next_paths", args.next_paths);
  }
  if (check.ok() && (args.depth < 1 || args.depth >= kPathNumbers))
    check.Fail(StrCat("nodes of depth ", args.depth));
  if (check.ok() && (beams < 1 || children < beams))
    check.Fail(StrCat(beams, " beams of ", children, " children"));
  if (check.ok() && (args.begin < 0 || args.begin + from * children > args.nodes.dims[1]))
    check.Fail(StrCat("nodes from ", args.begin, " on, of ", args.nodes.dims[1]));
  return check.status();
}

}  // namespace sluice::ops
