#include "ops/sampling.h"

#include "ops/check_args.h"

namespace sluice::ops {
namespace {

template <class T>
std::span<T> HostArray(const Tensor& t) {
  return {t.ptr<T>(), t.empty() ? 0 : static_cast<size_t>(t.dims[0])};
}

Status BadRow(int64_t row, std::string_view what, int64_t value, int64_t limit) {
  return InvalidArgument(StrCat("sample: row ", row, " names ", what, " ", value, " of ", limit));
}

}  // namespace

std::string Sample::Desc::ToString() const {
  return StrCat("vocab ", vocab, ", top log-probs ", top_logprobs_max,
                filtered ? ", filtered distributions" : "");
}

std::span<const SampleRow> RowsOf(const Sample::Args& args) {
  return HostArray<const SampleRow>(args.rows);
}
std::span<const LogitEdit> EditsOf(const Sample::Args& args) {
  return HostArray<const LogitEdit>(args.edits);
}
std::span<SampleOutput> OutputsOf(const Sample::Args& args) {
  return HostArray<SampleOutput>(args.outputs);
}

Status CheckArgs(const Sample::Desc& desc, const Sample::Args& args) {
  const int64_t rows = args.logits.rank == 2 ? args.logits.dims[0] : -1;
  const int64_t top = desc.top_logprobs_max + 1;
  ArgsChecker check(Sample::kName, args.logits);
  check.Expect("logits", args.logits, DType::kF32, {rows, desc.vocab})
      .Expect("rows", args.rows, DType::kU8, {rows, int64_t{sizeof(SampleRow)}})
      .Expect("outputs", args.outputs, DType::kU8, {rows, int64_t{sizeof(SampleOutput)}})
      .Expect("top_ids", args.top_ids, DType::kI32, {-1, top})
      .Expect("top_logprobs", args.top_logprobs, DType::kF32, {-1, top});
  if (!check.ok()) return check.status();
  if (std::min(args.top_ids.dims[0], args.top_logprobs.dims[0]) < rows) {
    check.Fail("top_ids and top_logprobs have fewer rows than logits");
  }
  check.ExpectIf(!args.edits.empty(), "edits", args.edits, DType::kU8,
                 {-1, int64_t{sizeof(LogitEdit)}});
  check.ExpectIf(!args.counts.empty(), "counts", args.counts, DType::kI32, {-1, desc.vocab});
  check.ExpectIf(!args.masks.empty(), "masks", args.masks, DType::kI32,
                 {-1, (desc.vocab + 31) / 32});
  check.ExpectIf(!args.distributions.empty(), "distributions", args.distributions, DType::kF32,
                 {-1, desc.vocab});
  const bool mapped = !args.guess_of.empty();
  check.ExpectIf(!args.guesses.empty(), "guesses", args.guesses, DType::kF32,
                 {-1, mapped ? -1 : desc.vocab});
  check.ExpectIf(mapped, "guess_of", args.guess_of, DType::kI32, {desc.vocab});
  return check.status();
}

Status CheckIndices(const Sample::Desc& desc, const Sample::Args& args) {
  const std::span<const SampleRow> rows = RowsOf(args);
  const int64_t edits = static_cast<int64_t>(EditsOf(args).size());
  const int64_t counts = args.counts.empty() ? 0 : args.counts.dims[0];
  const int64_t masks = args.masks.empty() ? 0 : args.masks.dims[0];
  const int64_t distributions = args.distributions.empty() ? 0 : args.distributions.dims[0];
  const int64_t guesses = args.guesses.empty() ? 0 : args.guesses.dims[0];
  for (size_t i = 0; i < rows.size(); ++i) {
    const SampleRow& row = rows[i];
    const int64_t at = static_cast<int64_t>(i);
    if (!row.draw && (row.target < 0 || row.target >= desc.vocab))
      return BadRow(at, "target", row.target, desc.vocab);
    if (row.edit_begin < 0 || row.edit_count < 0 || row.edit_begin > edits - row.edit_count)
      return BadRow(at, "edits up to", int64_t{row.edit_begin} + row.edit_count, edits);
    if (row.counts_row >= counts) return BadRow(at, "counts", row.counts_row, counts);
    if (row.drafts < 0 || row.drafts > at) return BadRow(at, "drafts", row.drafts, at);
    if (row.mask_row >= masks) return BadRow(at, "mask", row.mask_row, masks);
    if (row.distribution_row >= distributions)
      return BadRow(at, "distribution", row.distribution_row, distributions);
    if (row.guess_row >= guesses) return BadRow(at, "guesses", row.guess_row, guesses);
  }
  return OkStatus();
}

}  // namespace sluice::ops
