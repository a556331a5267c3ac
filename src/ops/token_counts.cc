#include "ops/token_counts.h"

#include "ops/check_args.h"

namespace sluice::ops {
namespace {

Status Outside(std::string_view op, std::string_view what, int64_t value, int64_t limit) {
  return InvalidArgument(StrCat(op, ": ", what, " ", value, " of ", limit));
}

bool In(int64_t value, int64_t limit) { return value >= 0 && value < limit; }

}  // namespace

std::string SetCounts::Desc::ToString() const { return StrCat("vocab ", vocab); }
std::string ResolveRows::Desc::ToString() const { return "rows"; }
std::string KeepDrawn::Desc::ToString() const { return StrCat("vocab ", vocab); }

Status CheckArgs(const SetCounts::Desc& desc, const SetCounts::Args& args) {
  ArgsChecker check(SetCounts::kName, args.counts);
  check.Expect("rows", args.rows, DType::kI32, {-1, 3})
      .Expect("words", args.words, DType::kI32, {-1, 2})
      .Expect("counts", args.counts, DType::kI32, {-1, desc.vocab});
  return check.status();
}

Status CheckArgs(const ResolveRows::Desc&, const ResolveRows::Args& args) {
  const int64_t slots = args.lengths.rank == 1 ? args.lengths.dims[0] : -1;
  ArgsChecker check(ResolveRows::kName, args.rows);
  check.Expect("rows", args.rows, DType::kU8, {-1, int64_t{sizeof(SampleRow)}})
      .Expect("lengths", args.lengths, DType::kI32, {slots})
      .Expect("tokens", args.tokens, DType::kI32, {slots, -1});
  return check.status();
}

Status CheckArgs(const KeepDrawn::Desc& desc, const KeepDrawn::Args& args) {
  const int64_t rows = args.rows.rank == 2 ? args.rows.dims[0] : -1;
  const int64_t slots = args.lengths.rank == 1 ? args.lengths.dims[0] : -1;
  ArgsChecker check(KeepDrawn::kName, args.outputs);
  check.Expect("rows", args.rows, DType::kU8, {rows, int64_t{sizeof(SampleRow)}})
      .Expect("outputs", args.outputs, DType::kU8, {rows, int64_t{sizeof(SampleOutput)}})
      .ExpectIf(!args.counts.empty(), "counts", args.counts, DType::kI32, {-1, desc.vocab})
      .Expect("lengths", args.lengths, DType::kI32, {slots})
      .Expect("tokens", args.tokens, DType::kI32, {slots, -1});
  if (check.ok() && args.tokens.dims[1] < 1) check.Fail("tokens has no column");
  return check.status();
}

Status CheckIndices(const SetCounts::Desc& desc, const SetCounts::Args& args) {
  const int64_t rows = args.counts.dims[0], words = args.words.dims[0];
  for (int64_t i = 0; i < args.rows.dims[0]; ++i) {
    const int32_t* const row = args.rows.ptr<int32_t>() + i * args.rows.strides[0];
    if (!In(row[0], rows)) return Outside(SetCounts::kName, "row", row[0], rows);
    if (row[1] < 0 || row[2] < row[1] || row[2] > words)
      return Outside(SetCounts::kName, "words up to", row[2], words);
  }
  for (int64_t w = 0; w < words; ++w) {
    const int32_t id = args.words.ptr<int32_t>()[w * args.words.strides[0]];
    if (!In(id, desc.vocab)) return Outside(SetCounts::kName, "id", id, desc.vocab);
  }
  return OkStatus();
}

Status CheckIndices(const ResolveRows::Desc&, const ResolveRows::Args& args) {
  const auto* const rows = args.rows.ptr<SampleRow>();
  const int64_t slots = args.lengths.dims[0], tokens = args.tokens.dims[1];
  for (int64_t r = 0; r < args.rows.dims[0]; ++r) {
    if (rows[r].position >= 0 && rows[r].target >= -1) continue;
    if (!In(rows[r].slot, slots)) return Outside(ResolveRows::kName, "slot", rows[r].slot, slots);
    if (rows[r].target < -tokens)
      return Outside(ResolveRows::kName, "token", -1 - int64_t{rows[r].target}, tokens);
  }
  return OkStatus();
}

Status CheckIndices(const KeepDrawn::Desc& desc, const KeepDrawn::Args& args) {
  const auto* const rows = args.rows.ptr<SampleRow>();
  const auto* const outputs = args.outputs.ptr<SampleOutput>();
  const int64_t limit = args.counts.empty() ? 0 : args.counts.dims[0];
  const int64_t slots = args.lengths.dims[0];
  for (int64_t r = 0; r < args.rows.dims[0]; ++r) {
    if (!rows[r].draw) continue;
    if (rows[r].slot >= slots) return Outside(KeepDrawn::kName, "slot", rows[r].slot, slots);
    if (rows[r].counts_row >= limit)
      return Outside(KeepDrawn::kName, "row", rows[r].counts_row, limit);
    if (!In(outputs[r].token, desc.vocab))
      return Outside(KeepDrawn::kName, "token", outputs[r].token, desc.vocab);
    if (args.taken > 0.0 && rows[r].target >= desc.vocab)
      return Outside(KeepDrawn::kName, "target", rows[r].target, desc.vocab);
  }
  return OkStatus();
}

}  // namespace sluice::ops
