#include "ops/embedding.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string Embedding::Desc::ToString() const {
  return StrCat(Name(table), " ", vocab, "x", hidden, " to ", Name(activation), " scale ", scale,
                add ? " added" : "", first_beyond ? ", the first row beyond" : "");
}

std::string GatherRows::Desc::ToString() const { return StrCat(Name(activation), " ", width); }

std::string ResolveTokens::Desc::ToString() const { return "I32"; }

Status CheckArgs(const Embedding::Desc& desc, const Embedding::Args& args) {
  const int64_t tokens = args.ids.rank == 1 ? args.ids.dims[0] : -1;
  ArgsChecker check(Embedding::kName, args.table);
  check.Expect("ids", args.ids, DType::kI32, {tokens})
      .Expect("table", args.table, desc.table, {desc.vocab, desc.hidden})
      .Expect("out", args.out, desc.activation, {tokens, desc.hidden});
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
  return CheckIndices(Embedding::kName, "ids", args.ids, 0,
                      desc.first_beyond ? int64_t{1} << 31 : desc.vocab);
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
