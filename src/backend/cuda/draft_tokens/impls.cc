#include "backend/cuda/draft_tokens/impls.h"

#include "backend/cuda/draft_tokens/params.h"
#include "backend/cuda/launch.h"
#include "ops/attention.h"
#include "ops/draft_tokens.h"
#include "ops/guess_trees.h"
#include "ops/sample_row.h"

namespace sluice::cuda {
namespace {

Status RunNextTokens(device::Stream& stream, const ops::NextTokens::Desc& desc,
                     const ops::NextTokens::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const NextTokensParams params = {.token_ids = args.token_ids.ptr<int32_t>(),
                                   .query_start = args.query_start.ptr<int32_t>(),
                                   .positions = args.positions.ptr<int32_t>(),
                                   .slots = args.slots.ptr<int32_t>(),
                                   .next = args.next.ptr<int32_t>(),
                                   .drafting = args.drafting.ptr<int32_t>(),
                                   .lengths = args.lengths.ptr<int32_t>(),
                                   .known = args.known.ptr<int32_t>(),
                                   .ids = args.ids.ptr<int32_t>(),
                                   .rows = args.rows.ptr<int32_t>(),
                                   .first = args.first.ptr<int32_t>(),
                                   .known_stride = args.known.strides[0],
                                   .tokens = args.ids.dims[0],
                                   .sequences = static_cast<int32_t>(args.slots.dims[0]),
                                   .drafts = static_cast<int32_t>(args.drafting.dims[0]),
                                   .slot_count = static_cast<int32_t>(args.lengths.dims[0])};
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(params.sequences);
  shape.block[0] = kNextTokensThreads;
  return Launch(stream, {"any_draft_tokens", "any_next_tokens"}, shape, params);
}

Status RunKeepGuesses(device::Stream& stream, const ops::KeepGuesses::Desc& desc,
                      const ops::KeepGuesses::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const bool ids = !args.target_ids.empty();
  const KeepGuessesParams params = {
      .outputs = args.outputs.data,
      .slots = args.slots.ptr<int32_t>(),
      .target_ids = ids ? args.target_ids.ptr<int32_t>() : nullptr,
      .known = args.known.ptr<int32_t>(),
      .ids = args.ids.ptr<int32_t>(),
      .first = args.first.ptr<int32_t>(),
      .rows = args.rows.data,
      .outputs_stride = args.outputs.strides[0],
      .known_stride = args.known.strides[0],
      .rows_stride = args.rows.strides[0],
      .number = args.number,
      .moved = args.moved,
      .drafts = static_cast<int32_t>(args.slots.dims[0]),
      .slot_count = static_cast<int32_t>(args.known.dims[0]),
      .target_id_count = ids ? static_cast<int32_t>(args.target_ids.dims[0]) : 0};
  LaunchShape shape;
  shape.grid[0] =
      (static_cast<unsigned>(params.drafts) + kKeepGuessesThreads - 1) / kKeepGuessesThreads;
  shape.block[0] = kKeepGuessesThreads;
  return Launch(stream, {"any_draft_tokens", "any_keep_guesses"}, shape, params);
}

Status RunFollowTrees(device::Stream& stream, const ops::FollowTrees::Desc& desc,
                      const ops::FollowTrees::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const FollowTreesParams params = {.token_ids = args.token_ids.ptr<int32_t>(),
                                    .query_start = args.query_start.ptr<int32_t>(),
                                    .positions = args.positions.ptr<int32_t>(),
                                    .slots = args.slots.ptr<int32_t>(),
                                    .paths = args.paths.ptr<int32_t>(),
                                    .logits_rows = args.logits_rows.ptr<int32_t>(),
                                    .outputs = args.outputs.data,
                                    .lengths = args.lengths.ptr<int32_t>(),
                                    .known = args.known.ptr<int32_t>(),
                                    .order = args.order.ptr<int32_t>(),
                                    .ids = args.ids.ptr<int32_t>(),
                                    .places = args.places.ptr<int32_t>(),
                                    .path_stride = args.paths.strides[0],
                                    .outputs_stride = args.outputs.strides[0],
                                    .known_stride = args.known.strides[0],
                                    .tokens = args.ids.dims[0],
                                    .sequences = static_cast<int32_t>(args.slots.dims[0]),
                                    .rows = static_cast<int32_t>(args.logits_rows.dims[0]),
                                    .slot_count = static_cast<int32_t>(args.lengths.dims[0])};
  if (params.sequences == 0) return OkStatus();
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(params.sequences);
  shape.block[0] = kFollowTreesThreads;
  return Launch(stream, {"any_draft_tokens", "any_follow_trees"}, shape, params);
}

Status RunGrowTrees(device::Stream& stream, const ops::GrowTrees::Desc& desc,
                    const ops::GrowTrees::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const bool ids = !args.target_ids.empty(), behind = args.depth > 1;
  const GrowTreesParams params = {
      .outputs = args.outputs.data,
      .top_ids = args.top_ids.ptr<int32_t>(),
      .top_logprobs = args.top_logprobs.ptr<float>(),
      .slots = args.slots.ptr<int32_t>(),
      .target_ids = ids ? args.target_ids.ptr<int32_t>() : nullptr,
      .beams = behind ? args.beams.ptr<int32_t>() : nullptr,
      .paths = behind ? args.paths.ptr<int32_t>() : nullptr,
      .nodes = args.nodes.ptr<int32_t>(),
      .next_beams = args.next_beams.ptr<int32_t>(),
      .next_paths = args.next_paths.ptr<int32_t>(),
      .ids = args.ids.ptr<int32_t>(),
      .order = args.order.ptr<int32_t>(),
      .first = args.first.ptr<int32_t>(),
      .outputs_stride = args.outputs.strides[0],
      .ids_stride = args.top_ids.strides[0],
      .logprobs_stride = args.top_logprobs.strides[0],
      .nodes_stride = args.nodes.strides[0],
      .drafts = static_cast<int32_t>(args.slots.dims[0]),
      .slot_count = args.slot_count,
      .target_id_count = ids ? static_cast<int32_t>(args.target_ids.dims[0]) : 0,
      .depth = args.depth,
      .begin = args.begin,
      .moved = args.moved,
      .beam_count = static_cast<int32_t>(args.next_beams.dims[1]),
      .children = static_cast<int32_t>(args.top_ids.dims[1])};
  if (params.drafts == 0) return OkStatus();
  LaunchShape shape;
  shape.grid[0] =
      (static_cast<unsigned>(params.drafts) + kGrowTreesThreads - 1) / kGrowTreesThreads;
  shape.block[0] = kGrowTreesThreads;
  return Launch(stream, {"any_draft_tokens", "any_grow_trees"}, shape, params);
}

static_assert(ops::kPathNumbers == 9, "any_draft_tokens.cu has the number, too");

}  // namespace

void RegisterDraftTokens(ops::OpTable& table) {
  table.Add<ops::NextTokens>({"any_next_tokens", &ops::RefNextTokensSupports, &RunNextTokens});
  table.Add<ops::KeepGuesses>({"any_keep_guesses", &ops::RefKeepGuessesSupports, &RunKeepGuesses});
  table.Add<ops::FollowTrees>({"any_follow_trees", &ops::RefFollowTreesSupports, &RunFollowTrees});
  table.Add<ops::GrowTrees>({"any_grow_trees", &ops::RefGrowTreesSupports, &RunGrowTrees});
}

}  // namespace sluice::cuda
