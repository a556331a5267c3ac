#include "ops/embedding.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string Embedding::Desc::ToString() const {
  return StrCat(Name(table), " ", vocab, "x", hidden, " to ", Name(activation), " scale ", scale);
}

std::string GatherRows::Desc::ToString() const { return StrCat(Name(activation), " ", width); }

std::string ResolveTokens::Desc::ToString() const { return "I32"; }

Status CheckArgs(const Embedding::Desc& desc, const Embedding::Args& args) {
  const int64_t tokens = args.ids.rank == 1 ? args.ids.dims[0] : -1;
  ArgsChecker check(Embedding::kName, args.table);
  check.Expect("ids", args.ids, DType::kI32, {tokens})
      .Expect("table", args.table, desc.table, {desc.vocab, desc.hidden})
      .Expect("out", args.out, desc.activation, {tokens, desc.hidden});
  if (!args.splice.empty()) {
    check.Expect("splice", args.splice, DType::kI32, {tokens})
        .Expect("spliced", args.spliced, desc.activation, {-1, desc.hidden})
        .ExpectApart("spliced", args.spliced, "out", args.out);
  } else if (!args.spliced.empty()) {
    check.Fail("spliced rows are given without splice, which says where they go");
  }
  return check.status();
}

Status CheckArgs(const GatherRows::Desc& desc, const GatherRows::Args& args) {
  const int64_t count = args.rows.rank == 1 ? args.rows.dims[0] : -1;
  ArgsChecker check(GatherRows::kName, args.x);
  check.Expect("x", args.x, desc.activation, {-1, desc.width})
      .Expect("rows", args.rows, DType::kI32, {count})
      .Expect("out", args.out, desc.activation, {count, desc.width})
      .ExpectApart("x", args.x, "out", args.out);
  return check.status();
}

Status CheckIndices(const Embedding::Desc& desc, const Embedding::Args& args) {
  if (args.splice.empty()) return CheckIndices(Embedding::kName, "ids", args.ids, 0, desc.vocab);
  SLUICE_RETURN_IF_ERROR(
      CheckIndices(Embedding::kName, "splice", args.splice, -1, args.spliced.dims[0]));
  // A spliced token's id is a placeholder and may be any number.
  for (int64_t t = 0; t < args.ids.dims[0]; ++t) {
    const int64_t id = args.ids.ptr<int32_t>()[t];
    if (args.splice.ptr<int32_t>()[t] < 0 && (id < 0 || id >= desc.vocab))
      return InvalidArgument(
          StrCat("embedding: ids[", t, "] is ", id, ", outside the vocabulary of ", desc.vocab));
  }
  return OkStatus();
}

Status CheckIndices(const GatherRows::Desc&, const GatherRows::Args& args) {
  return CheckIndices(GatherRows::kName, "rows", args.rows, 0, args.x.dims[0]);
}

Status CheckArgs(const ResolveTokens::Desc&, const ResolveTokens::Args& args) {
  ArgsChecker check(ResolveTokens::kName, args.ids);
  check.Expect("ids", args.ids, DType::kI32, {-1})
      .Expect("previous", args.previous, DType::kI32, {-1})
      .ExpectApart("ids", args.ids, "previous", args.previous);
  return check.status();
}

Status CheckIndices(const ResolveTokens::Desc&, const ResolveTokens::Args& args) {
  return CheckIndices(ResolveTokens::kName, "ids", args.ids, -args.previous.dims[0],
                      int64_t{1} << 31);
}

}  // namespace sluice::ops
