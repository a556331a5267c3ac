#include "ops/index_scores.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string IndexScores::Desc::ToString() const {
  return StrCat(Name(activation), " ", heads, " heads of ", head_dim, " scale ", scale, " kv ",
                kv.ToString());
}

Status CheckArgs(const IndexScores::Desc& desc, const IndexScores::Args& args) {
  const int64_t rows = args.q.rank == 2 ? args.q.dims[0] : -1;
  const int64_t sequences = args.context.rank == 1 ? args.context.dims[0] : -1;
  ArgsChecker check(IndexScores::kName, args.q);
  check.Expect("q", args.q, desc.activation, {rows, int64_t{desc.heads} * desc.head_dim})
      .Expect("weights", args.weights, DType::kF32, {rows, desc.heads})
      .Expect("context", args.context, DType::kI32, {sequences})
      .Expect("query_start", args.query_start, DType::kI32, {sequences + 1})
      .Expect("block_table", args.block_table, DType::kI32, {sequences, -1})
      .Expect("scores", args.scores, DType::kF32, {rows, -1})
      .Expect("lengths", args.lengths, DType::kI32, {rows})
      .ExpectApart("q", args.q, "scores", args.scores);
  ExpectPagedKv(desc.kv, args.kv, check);
  if (check.ok() && args.first_row < 0) check.Fail(StrCat("first_row is ", args.first_row));
  return check.status();
}

Status CheckIndices(const IndexScores::Desc& desc, const IndexScores::Args& args) {
  const auto bad = [](const auto&... parts) {
    return InvalidArgument(StrCat(IndexScores::kName, ": ", parts...));
  };
  const int32_t* start = args.query_start.ptr<int32_t>();
  const int32_t* context = args.context.ptr<int32_t>();
  const int64_t end = args.first_row + args.q.dims[0], block_tokens = desc.kv.kernel_block_tokens;
  if (start[0] != 0) return bad("query_start[0] is ", start[0], ", expected 0");
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    const int64_t count = int64_t{start[s + 1]} - start[s];
    if (count < 0) return bad("query_start falls from ", start[s], " to ", start[s + 1]);
    if (start[s + 1] <= args.first_row || start[s] >= end || count == 0) continue;
    if (context[s] < count)
      return bad("sequence ", s, " has ", count, " query tokens in a context of ", context[s]);
    const int64_t room = std::min(args.scores.dims[1], args.block_table.dims[1] * block_tokens);
    if (context[s] > room)
      return bad("a context of ", context[s], " tokens does not fit ", args.scores.dims[1],
                 " scores and ", args.block_table.dims[1], " blocks of ", block_tokens);
    const int32_t* row = args.block_table.ptr<int32_t>() + s * args.block_table.strides[0];
    for (int64_t block = 0; block * block_tokens < context[s]; ++block) {
      if (row[block] < 0 || row[block] >= args.kv.k.dims[0])
        return bad("block ", row[block], " of sequence ", s, ", the KV has ", args.kv.k.dims[0]);
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
