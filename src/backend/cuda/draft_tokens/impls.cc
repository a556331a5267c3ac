#include "backend/cuda/draft_tokens/impls.h"

#include "backend/cuda/draft_tokens/params.h"
#include "backend/cuda/launch.h"
#include "ops/draft_tokens.h"
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

}  // namespace

void RegisterDraftTokens(ops::OpTable& table) {
  table.Add<ops::NextTokens>({"any_next_tokens", &ops::RefNextTokensSupports, &RunNextTokens});
  table.Add<ops::KeepGuesses>({"any_keep_guesses", &ops::RefKeepGuessesSupports, &RunKeepGuesses});
}

}  // namespace sluice::cuda
