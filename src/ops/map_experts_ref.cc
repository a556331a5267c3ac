#include <algorithm>

#include "ops/check_args.h"
#include "ops/experts.h"
#include "ops/map_experts.h"

namespace sluice::ops {
namespace {

uint32_t RowHash(int32_t position, int32_t token) {
  uint32_t h =
      static_cast<uint32_t>(position) * 0x9E3779B1u + static_cast<uint32_t>(token) * 0x85EBCA77u;
  h ^= h >> 16;
  h *= 0x7FEB352Du;
  return h ^ (h >> 15);
}

Status CheckMap(const MapExperts::Desc& desc, const MapExperts::Args& args) {
  const int32_t* map = args.map.ptr<int32_t>();
  for (int e = 0; e < desc.experts; ++e) {
    if (map[e] >= 0 && map[e] < map[e + 1] && map[e + 1] <= desc.slots) continue;
    return InvalidArgument(StrCat(MapExperts::kName, ": expert ", e, " has the slots ", map[e],
                                  " to ", map[e + 1], " of a list of ", desc.slots));
  }
  Tensor list = args.map;
  list.data += static_cast<size_t>(desc.experts + 1 + map[0]) * sizeof(int32_t);
  list.dims[0] = map[desc.experts] - map[0];
  return CheckIndices(MapExperts::kName, "map", list, 0, desc.slots);
}

}  // namespace

Support RefMapExpertsSupports(const MapExperts::Desc& desc, const device::DeviceFacts&) {
  if (desc.experts < 1 || desc.slots < desc.experts || desc.slots > kExpertsMax || desc.top_k < 1 ||
      desc.top_k > std::min(desc.experts, kExpertsPerTokenMax)) {
    return Support::No(StrCat(desc.top_k, " of ", desc.experts, " experts in ", desc.slots,
                              " slots; at most ", kExpertsMax, " are supported"));
  }
  return Support::Yes();
}

Status RefMapExperts(device::Stream&, const MapExperts::Desc& desc, const MapExperts::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckMap(desc, args));
  const int64_t tokens = args.ids.dims[0];
  for (int64_t t = 0; t < tokens; ++t) {
    SLUICE_RETURN_IF_ERROR(
        CheckIndices(MapExperts::kName, "ids", args.ids.Rows(t, 1), 0, desc.experts));
  }
  const int32_t* first = args.map.ptr<int32_t>();
  const int32_t* list = first + desc.experts + 1;
  const int64_t counted = args.counted.empty() ? tokens : *args.counted.ptr<int32_t>();
  uint32_t* const counts = args.counts.ptr<uint32_t>();
  for (int64_t t = 0; t < tokens; ++t) {
    const uint64_t hash =
        RowHash(args.positions.ptr<int32_t>()[t], args.token_ids.ptr<int32_t>()[t]);
    int32_t* const ids = args.ids.ptr<int32_t>() + t * args.ids.strides[0];
    for (int i = 0; i < desc.top_k; ++i) {
      const int32_t expert = ids[i];
      if (counts != nullptr && t < counted) ++counts[expert];
      const auto slots = static_cast<uint64_t>(first[expert + 1] - first[expert]);
      ids[i] = list[first[expert] + static_cast<int32_t>(hash * slots >> 32)];
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
