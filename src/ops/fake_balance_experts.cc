#include "ops/fake_balance_experts.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string FakeBalanceExperts::Desc::ToString() const { return StrCat(top_k, " of ", experts); }

Status CheckArgs(const FakeBalanceExperts::Desc& desc, const FakeBalanceExperts::Args& args) {
  const int64_t tokens = args.ids.rank == 2 ? args.ids.dims[0] : -1;
  ArgsChecker check(FakeBalanceExperts::kName, args.ids);
  check.Expect("ids", args.ids, DType::kI32, {tokens, desc.top_k})
      .Expect("weights", args.weights, DType::kF32, {tokens, desc.top_k})
      .ExpectApart("ids", args.ids, "weights", args.weights);
  return check.status();
}

}  // namespace sluice::ops
