#include "ops/map_experts.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string MapExperts::Desc::ToString() const {
  return StrCat(top_k, " of ", experts, " in ", slots, " slots");
}

Status CheckArgs(const MapExperts::Desc& desc, const MapExperts::Args& args) {
  const int64_t tokens = args.ids.rank == 2 ? args.ids.dims[0] : -1;
  ArgsChecker check(MapExperts::kName, args.ids);
  check.Expect("token_ids", args.token_ids, DType::kI32, {tokens})
      .Expect("positions", args.positions, DType::kI32, {tokens})
      .Expect("map", args.map, DType::kI32, {desc.map_size()})
      .Expect("ids", args.ids, DType::kI32, {tokens, desc.top_k})
      .ExpectIf(!args.counts.empty(), "counts", args.counts, DType::kI32, {desc.experts})
      .ExpectIf(!args.counted.empty(), "counted", args.counted, DType::kI32, {1})
      .ExpectApart("ids", args.ids, "token_ids", args.token_ids)
      .ExpectApart("ids", args.ids, "positions", args.positions)
      .ExpectApart("ids", args.ids, "map", args.map)
      .ExpectApart("ids", args.ids, "counts", args.counts);
  return check.status();
}

}  // namespace sluice::ops
