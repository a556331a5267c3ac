#include "ops/top_k.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string TopK::Desc::ToString() const { return StrCat(k, " of each row"); }

Status CheckArgs(const TopK::Desc& desc, const TopK::Args& args) {
  const int64_t rows = args.scores.rank == 2 ? args.scores.dims[0] : -1;
  ArgsChecker check(TopK::kName, args.scores);
  check.Expect("scores", args.scores, DType::kF32, {rows, -1})
      .Expect("lengths", args.lengths, DType::kI32, {rows})
      .Expect("positions", args.positions, DType::kI32, {rows, desc.k})
      .ExpectApart("scores", args.scores, "positions", args.positions);
  return check.status();
}

Status CheckIndices(const TopK::Desc&, const TopK::Args& args) {
  return CheckIndices(TopK::kName, "lengths", args.lengths, 0, args.scores.dims[1] + 1);
}

}  // namespace sluice::ops
