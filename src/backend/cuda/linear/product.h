// One product, or grouped ones, by the kernels in kernel_list.h for few tokens or by those in
// block_wgmma.h for many, which give the same bits: chosen and planned from shapes, then put on a
// stream.
#pragma once

#include "backend/cuda/linear/config.h"
#include "backend/cuda/linear/grouping.h"
#include "ops/kept.h"
#include "ops/linear.h"

namespace sluice::cuda {

// Which kernels multiply.
struct ProductChoice {
  const LinearFamily* family = nullptr;
  bool warpgroups = false;  // those in block_wgmma.h; else the family's, by `plan`
  LinearPlan plan;          // with warpgroups the split of k alone
};

// By shapes alone. `warpgroups`: they can read the call's tensors. REQUIRES: SupportsProduct.
ProductChoice ChooseProduct(LinearArithmetic arithmetic, DType weight, const LinearShape& shape,
                            bool warpgroups);

// What the choice depends on that differs from call to call of one weight.
struct ChoiceKey {
  int64_t m = 0;
  bool any_rows = false, warpgroups = false;
  bool operator==(const ChoiceKey&) const = default;
};
using KeptChoice = ops::LastValue<ChoiceKey, ProductChoice>;

// A call with its kernels and, where x lies otherwise than these read it, a copy of x to make.
// Warpgroups always copy x, by themselves.
struct LinearCall {
  ProductChoice choice;
  LinearParams params;
  bool staged = false;
  StageParams stage;
};

// What x is multiplied as.
DType FactorType(LinearArithmetic arithmetic);

// Whether the kernels of `arithmetic` take the product, and the memory for copies of `rows` rows
// of x.
ops::Support SupportsProduct(LinearArithmetic arithmetic, const ops::Linear::Desc& desc);
size_t ProductScratchBytes(LinearArithmetic arithmetic, const ops::Linear::Desc& desc,
                           int64_t rows);

// What the calls of one binding share.
struct ProductTerms {
  LinearArithmetic arithmetic = LinearArithmetic::kExact;
  const Grouping* grouping = nullptr;
  bool warpgroups = false;     // may multiply, where they are faster; without a grouping alone
  KeptChoice* kept = nullptr;  // null: each call chooses
};

// With a grouping args.weight is that of all experts, args.x has the rows of tokens and args.out
// those of places. REQUIRES: SupportsProduct; rows of x and of out.
Result<LinearCall> PlanCall(const ProductTerms& terms, const device::DeviceFacts& facts,
                            const ops::Linear::Desc& desc, const ops::Linear::Args& args);

// Launches of one call: one, or two where x is copied, for every m.
Status PutCall(device::Stream& stream, const ops::Linear::Desc& desc, LinearCall& call,
               const Grouping* grouping);

}  // namespace sluice::cuda
