#include "ops/place_tokens.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string PlaceTokens::Desc::ToString() const {
  std::string text = StrCat(state ? "state" : "kv", " in blocks of ", block_tokens);
  if (earlier != kAllEarlier) text += StrCat(", ", earlier, " earlier tokens");
  if (paths) text += ", paths";
  return text;
}

Status CheckArgs(const PlaceTokens::Desc& desc, const PlaceTokens::Args& args) {
  const int64_t sequences = args.first.rank == 1 ? args.first.dims[0] : -1;
  const int64_t tokens = args.positions.rank == 1 ? args.positions.dims[0] : -1;
  ArgsChecker check(PlaceTokens::kName, args.tables);
  check.Expect("query_start", args.query_start, DType::kI32, {sequences + 1})
      .Expect("first", args.first, DType::kI32, {sequences})
      .Expect("unsure", args.unsure, DType::kI32, {sequences})
      .Expect("slots", args.slots, DType::kI32, {sequences})
      .Expect("lengths", args.lengths, DType::kI32,
              {args.tables.rank == 2 ? args.tables.dims[0] : -1})
      .Expect("told_start", args.told_start, DType::kI32, {sequences + 1})
      .Expect("told_first", args.told_first, DType::kI32, {sequences})
      .Expect("told", args.told, DType::kI32, {-1})
      .Expect("tables", args.tables, DType::kI32, {-1, -1})
      .ExpectIf(desc.paths && !args.paths.empty(), "paths", args.paths, DType::kI32,
                {tokens, kPathNumbers})
      .Expect("positions", args.positions, DType::kI32, {tokens})
      .Expect("context", args.context, DType::kI32, {sequences})
      .Expect("kv_slots", args.kv_slots, DType::kI32, {tokens})
      .Expect("block_table", args.block_table, DType::kI32, {sequences, -1})
      .ExpectApart("tables", args.tables, "block_table", args.block_table);
  if (check.ok() && args.block_table.dims[1] > args.tables.dims[1]) {
    check.Fail(StrCat("block_table has ", args.block_table.dims[1], " columns, tables ",
                      args.tables.dims[1]));
  }
  return check.status();
}

}  // namespace sluice::ops
