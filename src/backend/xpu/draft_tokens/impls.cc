#include "backend/xpu/draft_tokens/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/attention.h"
#include "ops/draft_tokens.h"
#include "ops/guess_trees.h"

namespace sluice::xpu {
namespace {

int32_t SizeOf(const ops::Tensor& t) { return static_cast<int32_t>(t.dims[0]); }

Status RunNextTokens(device::Stream& stream, const ops::NextTokens::Desc& desc,
                     const ops::NextTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  if (args.slots.dims[0] == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), 64);
  const LaunchShape shape{{static_cast<size_t>(args.slots.dims[0]), 1, 1},
                          static_cast<size_t>(items)};
  return Launch(stream, {"draft_tokens/any_draft_tokens", "any_next_tokens"},
                StrCat("-D ITEMS=", items), shape, args.token_ids.data, args.query_start.data,
                args.positions.data, args.slots.data, args.next.data, args.drafting.data,
                args.lengths.data, args.known.data, RowStride(args.known), args.ids.data,
                args.rows.data, args.first.data, SizeOf(args.slots), SizeOf(args.drafting),
                SizeOf(args.ids), SizeOf(args.lengths));
}

Status RunKeepGuesses(device::Stream& stream, const ops::KeepGuesses::Desc& desc,
                      const ops::KeepGuesses::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  if (args.slots.dims[0] == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), 64);
  // A kernel's argument has to be some memory, read or not.
  const ops::Tensor& ids = args.target_ids.empty() ? args.slots : args.target_ids;
  return Launch(stream, {"draft_tokens/any_draft_tokens", "any_keep_guesses"},
                StrCat("-D ITEMS=", items), LaunchShape{{1, 1, 1}, static_cast<size_t>(items)},
                args.outputs.data, RowStride(args.outputs), args.slots.data, args.number,
                args.moved, args.known.data, RowStride(args.known), args.ids.data, args.first.data,
                SizeOf(args.slots), SizeOf(args.known), ids.data,
                args.target_ids.empty() ? 0 : SizeOf(ids),
                args.rows.empty() ? args.outputs.data : args.rows.data, RowStride(args.rows),
                args.rows.empty() ? 0 : 1);
}

static_assert(ops::kPathNumbers == 9, "any_draft_tokens.cl has the number, too");

Status RunFollowTrees(device::Stream& stream, const ops::FollowTrees::Desc& desc,
                      const ops::FollowTrees::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  if (args.slots.dims[0] == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), 64);
  const LaunchShape shape{{static_cast<size_t>(args.slots.dims[0]), 1, 1},
                          static_cast<size_t>(items)};
  return Launch(stream, {"draft_tokens/any_draft_tokens", "any_follow_trees"},
                StrCat("-D ITEMS=", items), shape, args.token_ids.data, args.query_start.data,
                args.positions.data, args.slots.data, args.paths.data, RowStride(args.paths),
                args.logits_rows.data, args.outputs.data, RowStride(args.outputs),
                args.lengths.data, args.known.data, RowStride(args.known), args.order.data,
                args.ids.data, args.places.data, SizeOf(args.slots), SizeOf(args.logits_rows),
                SizeOf(args.lengths), SizeOf(args.ids));
}

Status RunGrowTrees(device::Stream& stream, const ops::GrowTrees::Desc& desc,
                    const ops::GrowTrees::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  if (args.slots.dims[0] == 0) return OkStatus();
  const int items = ItemsFor(FactsOf(stream), 64);
  // A kernel's argument has to be some memory, read or not.
  const ops::Tensor& ids = args.target_ids.empty() ? args.slots : args.target_ids;
  const bool behind = args.depth > 1;
  return Launch(
      stream, {"draft_tokens/any_draft_tokens", "any_grow_trees"}, StrCat("-D ITEMS=", items),
      LaunchShape{{1, 1, 1}, static_cast<size_t>(items)}, args.outputs.data,
      RowStride(args.outputs), args.top_ids.data, RowStride(args.top_ids), args.top_logprobs.data,
      RowStride(args.top_logprobs), args.slots.data, SizeOf(args.slots), args.slot_count, ids.data,
      args.target_ids.empty() ? 0 : SizeOf(ids), args.depth, args.begin, args.moved,
      static_cast<int32_t>(args.next_beams.dims[1]), static_cast<int32_t>(args.top_ids.dims[1]),
      args.nodes.data, RowStride(args.nodes), behind ? args.beams.data : args.slots.data,
      behind ? args.paths.data : args.slots.data, args.next_beams.data, args.next_paths.data,
      args.ids.data, args.order.data, args.first.data);
}

}  // namespace

void RegisterDraftTokens(ops::OpTable& table) {
  table.Add<ops::NextTokens>({"any_next_tokens", &ops::RefNextTokensSupports, &RunNextTokens});
  table.Add<ops::KeepGuesses>({"any_keep_guesses", &ops::RefKeepGuessesSupports, &RunKeepGuesses});
  table.Add<ops::FollowTrees>({"any_follow_trees", &ops::RefFollowTreesSupports, &RunFollowTrees});
  table.Add<ops::GrowTrees>({"any_grow_trees", &ops::RefGrowTreesSupports, &RunGrowTrees});
}

}  // namespace sluice::xpu
