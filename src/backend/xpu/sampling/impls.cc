#include "backend/xpu/sampling/impls.h"

#include <cmath>

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "backend/xpu/sampling/config.h"
#include "ops/sampling.h"
#include "ops/token_counts.h"

namespace sluice::xpu {
namespace {

Status CheckAligned(std::string_view name, const ops::Tensor& t, size_t alignment) {
  const size_t bits = reinterpret_cast<uintptr_t>(t.data) | RowStride(t);
  if (t.empty() || bits % alignment == 0) return OkStatus();
  return InvalidArgument(StrCat("sample: ", name, " must be aligned to ", alignment, " bytes"));
}

int32_t RowsIn(const ops::Tensor& t) { return t.empty() ? 0 : static_cast<int32_t>(t.dims[0]); }

Status Run(device::Stream& stream, const ops::Sample::Desc& desc, const ops::Sample::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckAligned("rows", args.rows, 8));
  SLUICE_RETURN_IF_ERROR(CheckAligned("edits", args.edits, 4));
  SLUICE_RETURN_IF_ERROR(CheckAligned("outputs", args.outputs, 4));
  const int64_t rows = args.logits.dims[0];
  if (rows == 0) return OkStatus();
  const SampleConfig config = ConfigureSample(desc, rows, FactsOf(stream));
  SLUICE_ASSIGN_OR_RETURN(std::byte* const workspace, Scratch(stream, config.scratch_bytes));
  return Launch(stream, {"sampling/any_f32_sample", "any_f32_sample"}, config.options, config.shape,
                args.logits.data, RowStride(args.logits), args.rows.data, RowStride(args.rows),
                args.edits.data, args.counts.data, RowStride(args.counts), args.masks.data,
                RowStride(args.masks), args.outputs.data, RowStride(args.outputs),
                args.top_ids.data, args.top_logprobs.data, RowStride(args.top_ids),
                args.distributions.data, RowStride(args.distributions), workspace,
                static_cast<int32_t>(desc.vocab), desc.top_logprobs_max, RowsIn(args.edits),
                RowsIn(args.counts), RowsIn(args.masks), RowsIn(args.distributions),
                args.guesses.data, RowStride(args.guesses), args.guess_of.data,
                args.guess_of.empty() ? 0 : 1, RowsIn(args.guesses),
                static_cast<int32_t>(args.guesses.dims[1]));
}

// These are of one program with sampling, which is compiled before a request waits for it.
Status RunSetCounts(device::Stream& stream, const ops::SetCounts::Desc& desc,
                    const ops::SetCounts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t rows = args.rows.dims[0];
  if (rows == 0) return OkStatus();
  const SampleConfig config = ConfigureSample({.vocab = desc.vocab}, rows, FactsOf(stream));
  return Launch(stream, {"sampling/any_token_counts", "any_set_counts"}, config.options,
                config.shape, args.rows.data, RowStride(args.rows), args.words.data,
                RowStride(args.words), args.counts.data, RowStride(args.counts),
                static_cast<int32_t>(desc.vocab), RowsIn(args.counts), RowsIn(args.words));
}

Status RunResolveRows(device::Stream& stream, const ops::ResolveRows::Desc& desc,
                      const ops::ResolveRows::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckAligned("rows", args.rows, 8));
  if (args.rows.dims[0] == 0) return OkStatus();
  const SampleConfig config = ConfigureSample({.vocab = 1}, 1, FactsOf(stream));
  return Launch(stream, {"sampling/any_token_counts", "any_resolve_rows"}, config.options,
                config.shape, args.rows.data, RowStride(args.rows), args.lengths.data,
                args.tokens.data, RowStride(args.tokens), RowsIn(args.rows), RowsIn(args.lengths),
                static_cast<int32_t>(args.tokens.dims[1]));
}

Status RunKeepDrawn(device::Stream& stream, const ops::KeepDrawn::Desc& desc,
                    const ops::KeepDrawn::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckAligned("rows", args.rows, 8));
  SLUICE_RETURN_IF_ERROR(CheckAligned("outputs", args.outputs, 4));
  if (args.rows.dims[0] == 0) return OkStatus();
  const SampleConfig config = ConfigureSample({.vocab = desc.vocab}, 1, FactsOf(stream));
  return Launch(stream, {"sampling/any_token_counts", "any_keep_drawn"}, config.options,
                config.shape, args.rows.data, RowStride(args.rows), args.outputs.data,
                RowStride(args.outputs), args.counts.data, RowStride(args.counts),
                args.lengths.data, args.tokens.data, RowStride(args.tokens), RowsIn(args.rows),
                static_cast<int32_t>(desc.vocab), RowsIn(args.counts), RowsIn(args.lengths),
                static_cast<uint64_t>(std::ceil(args.taken * 0x1.0p53)));
}

size_t ScratchBytes(const ops::Sample::Desc& desc, const ops::StepLimits& limits,
                    const device::DeviceFacts& facts) {
  return ConfigureSample(desc, limits.logits_rows, facts).scratch_bytes;
}

}  // namespace

void RegisterSampling(ops::OpTable& table) {
  table.Add<ops::Sample>({.name = "any_f32_sample",
                          .supports = &SampleSupports,
                          .run = &Run,
                          .arithmetic = ops::Arithmetic::kF32,
                          .scratch_bytes = &ScratchBytes});
  table.Add<ops::SetCounts>({"any_set_counts", &ops::RefSetCountsSupports, &RunSetCounts});
  table.Add<ops::ResolveRows>({"any_resolve_rows", &ops::RefResolveRowsSupports, &RunResolveRows});
  table.Add<ops::KeepDrawn>({"any_keep_drawn", &ops::RefKeepDrawnSupports, &RunKeepDrawn});
}

}  // namespace sluice::xpu
