#include "ops/draft_tokens.h"

#include "ops/check_args.h"
#include "ops/sample_row.h"

namespace sluice::ops {

std::string NextTokens::Desc::ToString() const { return "tokens"; }
std::string KeepGuesses::Desc::ToString() const { return "tokens"; }

Status CheckArgs(const NextTokens::Desc&, const NextTokens::Args& args) {
  const auto size = [](const Tensor& t) { return t.rank == 1 ? t.dims[0] : -1; };
  const int64_t tokens = size(args.token_ids), sequences = size(args.slots);
  const int64_t drafts = size(args.drafting), slots = size(args.lengths);
  ArgsChecker check(NextTokens::kName, args.ids);
  check.Expect("token_ids", args.token_ids, DType::kI32, {tokens})
      .Expect("query_start", args.query_start, DType::kI32, {sequences + 1})
      .Expect("positions", args.positions, DType::kI32, {tokens})
      .Expect("slots", args.slots, DType::kI32, {sequences})
      .Expect("next", args.next, DType::kI32, {sequences})
      .Expect("drafting", args.drafting, DType::kI32, {drafts})
      .Expect("lengths", args.lengths, DType::kI32, {slots})
      .Expect("known", args.known, DType::kI32, {slots, -1})
      .Expect("ids", args.ids, DType::kI32, {tokens})
      .Expect("rows", args.rows, DType::kI32, {drafts})
      .Expect("first", args.first, DType::kI32, {drafts})
      .ExpectApart("token_ids", args.token_ids, "ids", args.ids);
  if (check.ok() && drafts > sequences) check.Fail("more drafts than sequences");
  if (check.ok() && args.known.dims[1] < 1) check.Fail("known has no column");
  return check.status();
}

Status CheckArgs(const KeepGuesses::Desc&, const KeepGuesses::Args& args) {
  const int64_t drafts = args.slots.rank == 1 ? args.slots.dims[0] : -1;
  ArgsChecker check(KeepGuesses::kName, args.outputs);
  check.Expect("outputs", args.outputs, DType::kU8, {drafts, int64_t{sizeof(SampleOutput)}})
      .Expect("slots", args.slots, DType::kI32, {drafts})
      .ExpectIf(!args.target_ids.empty(), "target_ids", args.target_ids, DType::kI32, {-1})
      .Expect("known", args.known, DType::kI32, {-1, -1})
      .Expect("ids", args.ids, DType::kI32, {drafts})
      .Expect("first", args.first, DType::kI32, {drafts})
      .ExpectIf(!args.rows.empty(), "rows", args.rows, DType::kU8,
                {drafts, int64_t{sizeof(SampleRow)}});
  if (check.ok() && (args.number < 1 || args.number >= args.known.dims[1]))
    check.Fail(StrCat("guess ", args.number, " of ", args.known.dims[1] - 1));
  return check.status();
}

}  // namespace sluice::ops
