// GroupedGate: the first products of experts (ops/grouped_linear.h) and what their gates open for,
// as codes that second products read, as one op: nothing stands in memory between the two. An
// implementation gives the bits of ops::GroupedLinear and ops::GroupQuant, one behind the other.
#pragma once

#include "ops/activation.h"
#include "ops/group_quant.h"
#include "ops/grouped_linear.h"

namespace sluice::ops {

struct GroupedGate {
  static constexpr std::string_view kName = "grouped_gate";

  struct Desc {
    // each.n: the rows of a gate, then as many of what it opens for. Not by columns, no biases.
    GroupedLinear::Desc products;
    Activation kind = Activation::kSilu;
    int64_t width() const { return products.each.n / 2; }
    // What becomes of the products, of as many rows as are given.
    GroupQuant::Desc gate() const;
    std::string ToString() const;
  };

  struct Args {
    Tensor x, tokens, starts;              // as GroupedLinear::Args has them; x are no codes
    const PackedWeight* weight = nullptr;  // of products.Stacked(), in rows
    // F8_E4M3 [places, width] and F32 [groups of 128, places]; rows may be strided. Those of places
    // from starts[experts] on are not written.
    Tensor codes, scales;
  };
};

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const GroupedGate::Desc& desc, const GroupedGate::Args& args);

Support RefGroupedGateSupports(const GroupedGate::Desc& desc, const device::DeviceFacts& facts);
Status RefGroupedGate(device::Stream& stream, const GroupedGate::Desc& desc,
                      const GroupedGate::Args& args);

}  // namespace sluice::ops
