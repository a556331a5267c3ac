// MapExperts: the experts that route_experts chose for each token, replaced by the slots that hold
// them, where experts lie in slots (experts/expert_map.h): some in several, and now and then in
// others. A step of its own behind the routing, which stays what it is; models bind it only where
// there are slots. The map is read from memory, so that a captured graph follows its changes.
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

// Of the n slots of an expert a token takes number (h * n) >> 32 with
//   h = position * 0x9E3779B1 + token id * 0x85EBCA77, h ^= h >> 16, h *= 0x7FEB352D, h ^= h >> 15
// modulo 2^32: a function of the token's own row alone, never of the step around it. All slots of
// an expert hold the same bytes, so answers don't depend on which one it is.
struct MapExperts {
  static constexpr std::string_view kName = "map_experts";
  struct Desc {
    int experts = 0;
    int slots = 0;  // >= experts; group_experts and the products behind it see these as experts
    int top_k = 0;
    std::string ToString() const;
    // Numbers of a map.
    int64_t map_size() const { return int64_t{experts} + 1 + slots; }
  };
  struct Args {
    Tensor token_ids;  // I32 [tokens]
    Tensor positions;  // I32 [tokens]
    // I32 [map_size()]: the slots of expert e are list[map[e]] to list[map[e + 1] - 1], with the
    // list behind the first experts + 1 numbers. Each expert has one at least.
    Tensor map;
    Tensor ids;  // I32 [tokens, top_k], each in [0, experts); in place
    // I32 [experts] or empty: counts[e] grows by the choices of expert e, modulo 2^32.
    Tensor counts = {};
    // I32 [1] or empty: tokens from this one on are padding, which counts leave out.
    Tensor counted = {};
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const MapExperts::Desc& desc, const MapExperts::Args& args);

Support RefMapExpertsSupports(const MapExperts::Desc& desc, const device::DeviceFacts& facts);
Status RefMapExperts(device::Stream& stream, const MapExperts::Desc& desc,
                     const MapExperts::Args& args);

}  // namespace sluice::ops
