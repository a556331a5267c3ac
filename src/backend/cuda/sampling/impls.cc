#include "backend/cuda/sampling/impls.h"

#include "backend/cuda/launch.h"
#include "backend/cuda/sampling/config.h"
#include "backend/cuda/sampling/params.h"
#include "ops/token_counts.h"

namespace sluice::cuda {
namespace {

using ops::KeepDrawn;
using ops::ResolveRows;
using ops::Sample;
using ops::SetCounts;

int32_t RowsIn(const ops::Tensor& t) { return t.empty() ? 0 : static_cast<int32_t>(t.dims[0]); }

SampleParams ParamsOf(const Sample::Desc& desc, const Sample::Args& args) {
  SampleParams p = {};
  p.logits = args.logits.ptr<float>();
  p.rows = args.rows.data;
  p.edits = args.edits.data;
  p.counts = args.counts.ptr<uint32_t>();
  p.masks = args.masks.ptr<uint32_t>();
  p.outputs = args.outputs.data;
  p.top_ids = args.top_ids.ptr<int32_t>();
  p.top_logprobs = args.top_logprobs.ptr<float>();
  p.distributions = args.distributions.ptr<float>();
  p.guesses = args.guesses.ptr<float>();
  p.guess_of = args.guess_of.ptr<int32_t>();
  p.vocab = desc.vocab;
  p.guess_vocab = args.guesses.dims[1];
  p.logits_stride = args.logits.strides[0];
  p.counts_stride = args.counts.strides[0];
  p.mask_stride = args.masks.strides[0];
  p.top_ids_stride = args.top_ids.strides[0];
  p.top_logprobs_stride = args.top_logprobs.strides[0];
  p.distribution_stride = args.distributions.strides[0];
  p.guesses_stride = args.guesses.strides[0];
  p.rows_stride = args.rows.strides[0];
  p.edits_stride = args.edits.strides[0];
  p.outputs_stride = args.outputs.strides[0];
  p.edit_count = RowsIn(args.edits);
  p.counts_count = RowsIn(args.counts);
  p.mask_count = RowsIn(args.masks);
  p.distribution_count = RowsIn(args.distributions);
  p.guess_count = RowsIn(args.guesses);
  p.top_max = desc.top_logprobs_max;
  p.slice = static_cast<int32_t>(SampleSlice(desc.vocab));
  return p;
}

// SampleRow has 64-bit members.
bool RowsAligned(const std::byte* rows, int64_t stride) {
  return reinterpret_cast<uintptr_t>(rows) % alignof(ops::SampleRow) == 0 &&
         stride % static_cast<int64_t>(alignof(ops::SampleRow)) == 0;
}

Status Run(device::Stream& stream, const Sample::Desc& desc, const Sample::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const SampleParams p = ParamsOf(desc, args);
  if (!RowsAligned(p.rows, p.rows_stride))
    return InvalidArgument("sample: the rows are not aligned to 8 bytes");
  LaunchShape shape;
  shape.grid[0] = kSampleCluster;
  shape.grid[1] = static_cast<unsigned>(args.logits.dims[0]);
  shape.block[0] = kSampleThreads;
  shape.shared_bytes = static_cast<unsigned>(SampleSharedBytes(desc.vocab));
  return Launch(stream, {"sm90_f32_sample", "sm90_f32_sample"}, shape, p);
}

Status RunSetCounts(device::Stream& stream, const SetCounts::Desc& desc,
                    const SetCounts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const SetCountsParams params = {.rows = args.rows.ptr<int32_t>(),
                                  .words = args.words.ptr<int32_t>(),
                                  .counts = args.counts.ptr<uint32_t>(),
                                  .rows_stride = args.rows.strides[0],
                                  .words_stride = args.words.strides[0],
                                  .counts_stride = args.counts.strides[0],
                                  .vocab = desc.vocab,
                                  .word_count = args.words.dims[0],
                                  .counts_count = args.counts.dims[0]};
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(args.rows.dims[0]);
  shape.block[0] = kSetCountsThreads;
  return Launch(stream, {"any_token_counts", "any_set_counts"}, shape, params);
}

KnownParams KnownOf(const ops::Tensor& lengths, const ops::Tensor& tokens) {
  return {.lengths = lengths.ptr<int32_t>(),
          .tokens = tokens.ptr<int32_t>(),
          .tokens_stride = tokens.strides[0],
          .slots = static_cast<int32_t>(lengths.dims[0]),
          .token_count = static_cast<int32_t>(tokens.dims[1])};
}

// Threads for so many rows.
LaunchShape ShapeOf(int64_t rows) {
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>((rows + kRowThreads - 1) / int64_t{kRowThreads});
  shape.block[0] = kRowThreads;
  return shape;
}

Status RunResolveRows(device::Stream& stream, const ResolveRows::Desc& desc,
                      const ResolveRows::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const ResolveRowsParams params = {.rows = args.rows.data,
                                    .rows_stride = args.rows.strides[0],
                                    .row_count = args.rows.dims[0],
                                    .known = KnownOf(args.lengths, args.tokens)};
  if (!RowsAligned(params.rows, params.rows_stride))
    return InvalidArgument("resolve_rows: the rows are not aligned to 8 bytes");
  return Launch(stream, {"any_token_counts", "any_resolve_rows"}, ShapeOf(params.row_count),
                params);
}

Status RunKeepDrawn(device::Stream& stream, const KeepDrawn::Desc& desc,
                    const KeepDrawn::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const KeepDrawnParams params = {.rows = args.rows.data,
                                  .outputs = args.outputs.data,
                                  .counts = args.counts.ptr<uint32_t>(),
                                  .rows_stride = args.rows.strides[0],
                                  .outputs_stride = args.outputs.strides[0],
                                  .counts_stride = args.counts.strides[0],
                                  .row_count = args.rows.dims[0],
                                  .vocab = desc.vocab,
                                  .counts_count = RowsIn(args.counts),
                                  .taken = args.taken,
                                  .known = KnownOf(args.lengths, args.tokens)};
  if (!RowsAligned(params.rows, params.rows_stride))
    return InvalidArgument("keep_drawn: the rows are not aligned to 8 bytes");
  return Launch(stream, {"any_token_counts", "any_keep_drawn"}, ShapeOf(params.row_count), params);
}

}  // namespace

void RegisterSampling(ops::OpTable& table) {
  table.Add<Sample>({"sm90_f32_sample", &SampleSupports, &Run, ops::Arithmetic::kF32});
  table.Add<SetCounts>({"any_set_counts", &ops::RefSetCountsSupports, &RunSetCounts});
  table.Add<ResolveRows>({"any_resolve_rows", &ops::RefResolveRowsSupports, &RunResolveRows});
  table.Add<KeepDrawn>({"any_keep_drawn", &ops::RefKeepDrawnSupports, &RunKeepDrawn});
}

}  // namespace sluice::cuda
