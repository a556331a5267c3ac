// GroupedLinear: products of rows with the matrices of experts, each row with its own expert's. The
// rows of an expert stand side by side, as group_experts puts them; how many an expert has is known
// to the device alone. One product is linear's (ops/linear.h), with its arithmetic to the bit, so a
// row's result depends neither on how many rows its expert has nor on which they are.
#pragma once

#include "ops/linear.h"

namespace sluice::ops {

struct GroupedLinear {
  static constexpr std::string_view kName = "grouped_linear";

  struct Desc {
    Linear::Desc each;  // of one expert; without a residual
    int experts = 0;
    int top_k = 1;  // experts of a token: a step has as many places for each, at most
    // Every row meets every matrix, with columns of its own for each, as the heads of attention do:
    // matrix e takes columns [e * x_step, e * x_step + k) of x and gives columns [e * out_step,
    // e * out_step + n) of out. There are no tokens, no starts and no biases then.
    bool by_columns = false;
    int64_t x_step = 0, out_step = 0;  // x_step 0: all take the same columns; out_step >= n
    // All experts' matrices as one, expert by expert: how they are packed.
    Linear::Desc Stacked() const;
    std::string ToString() const;
  };

  struct Args {
    // [rows, k]. With `tokens` the row of place p is tokens[p], else it is p. By columns all that
    // the matrices take, up to the last one's.
    Tensor x;
    Tensor tokens;  // I32 [places] or empty; those of places that no expert has are not read
    Tensor starts;  // I32 [experts + 1], ascending from 0 to at most `places`
    const PackedWeight* weight = nullptr;  // of Stacked()
    Tensor bias;                           // [experts, n] or empty
    // [places, n], or as wide as what the matrices give; may not overlap x. Rows from
    // starts[experts] on are not written, nor are columns between those of two matrices.
    Tensor out;
    // As Linear::Args has it, [groups, places]: x are codes then, by place, without `tokens`.
    Tensor x_scales = {};
  };
};

// Types, sizes, devices, overlaps of a call, for a weight in `layout`. What `tokens` and `starts`
// hold is the caller's promise, which the reference alone checks. `takes_codes`: as
// CheckLinearArgs.
Status CheckArgs(const GroupedLinear::Desc& desc, const GroupedLinear::Args& args, LayoutId layout,
                 bool takes_codes = false);

// For kernels whose weight is packed `row_group` rows at a time: an expert begins with a group.
Support WholeRowGroups(const GroupedLinear::Desc& desc, int row_group);

Support RefGroupedLinearSupports(const GroupedLinear::Desc& desc, const device::DeviceFacts& facts);
Status RefGroupedLinear(device::Stream& stream, const GroupedLinear::Desc& desc,
                        const GroupedLinear::Args& args);
// The same with the products of one expert after the other made by `product`, for weights in rows.
// REQUIRES: `product` takes codes, where x is some.
Status GroupedByExpert(device::Stream& stream, const GroupedLinear::Desc& desc,
                       const GroupedLinear::Args& args,
                       Status (*product)(device::Stream&, const Linear::Desc&,
                                         const Linear::Args&));

}  // namespace sluice::ops
