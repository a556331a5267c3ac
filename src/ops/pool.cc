#include "ops/pool.h"

#include "ops/check_args.h"

namespace sluice::ops {
namespace {

std::string_view Name(PoolKind kind) {
  switch (kind) {
    case PoolKind::kFirst:
      return "first";
    case PoolKind::kMean:
      return "mean";
    case PoolKind::kLast:
      return "last";
  }
  return "unknown";
}

}  // namespace

std::string Pool::Desc::ToString() const {
  return StrCat(Name(kind), " ", sluice::Name(activation), " ", width);
}

Status CheckArgs(const Pool::Desc& desc, const Pool::Args& args) {
  const int64_t sequences = args.out.rank == 2 ? args.out.dims[0] : -1;
  ArgsChecker check(Pool::kName, args.x);
  check.Expect("x", args.x, desc.activation, {-1, desc.width})
      .Expect("query_start", args.query_start, DType::kI32, {sequences + 1})
      .Expect("out", args.out, DType::kF32, {sequences, desc.width})
      .ExpectApart("x", args.x, "out", args.out);
  return check.status();
}

Status CheckIndices(const Pool::Desc&, const Pool::Args& args) {
  const int32_t* start = args.query_start.ptr<int32_t>();
  for (int64_t s = 0; s < args.out.dims[0]; ++s) {
    if (start[s] >= 0 && start[s] <= start[s + 1] && start[s + 1] <= args.x.dims[0]) continue;
    return InvalidArgument(StrCat(Pool::kName, ": sequence ", s, " has rows ", start[s], " to ",
                                  start[s + 1], " of ", args.x.dims[0]));
  }
  return OkStatus();
}

}  // namespace sluice::ops
