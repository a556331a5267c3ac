#include "backend/cuda/linear/f8_impls.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/launch.h"
#include "backend/cuda/linear/f8_config.h"
#include "backend/cuda/linear/f8_product.h"
#include "ops/linear.h"

namespace sluice::cuda {
namespace {

using ops::ActivationScales;
using ops::Linear;
using ops::WeightScales;

constexpr int64_t kWide = 16;  // bytes: where the copy engine's rows begin
constexpr int64_t kSizeMax = int64_t{1} << 24;

ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts&) {
  if (desc.weight != DType::kF8E4M3 || desc.weight_scales == WeightScales::kNone ||
      desc.x_scales == ActivationScales::kNone) {
    return ops::Support::No(StrCat("not an F8 weight with scales on activations in F8"));
  }
  if (desc.activation != DType::kF32 && desc.activation != DType::kF16 &&
      desc.activation != DType::kBF16) {
    return ops::Support::No(StrCat("activations in ", Name(desc.activation)));
  }
  if (desc.n < 1 || desc.k < 1 || desc.k % kWide != 0 || desc.n > kSizeMax || desc.k > kSizeMax) {
    return ops::Support::No(StrCat("n = ", desc.n, " and k = ", desc.k,
                                   " must be at most 2^24, k a multiple of ", kWide));
  }
  return ops::Support::Yes();
}

size_t ScratchBytes(const Linear::Desc& desc, const ops::StepLimits& limits,
                    const device::DeviceFacts&) {
  return F8ScratchOf(std::max(limits.tokens, limits.logits_rows), desc.k,
                     desc.x_scales == ActivationScales::kBlock)
      .bytes;
}

// Two launches for every m: x becomes F8, then the product.
Status Run(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args) {
  SLUICE_RETURN_IF_ERROR(ops::CheckLinearArgs(desc, args, ops::LayoutId::kRowMajor));
  const int64_t m = args.x.dims[0];
  if (m == 0) return OkStatus();
  if (m > std::numeric_limits<int>::max() / kF8ScaleTokens) {
    return InvalidArgument(StrCat("linear: ", m, " rows are too many"));
  }
  if (reinterpret_cast<uintptr_t>(args.weight->data.data) % kWide != 0) {
    return InvalidArgument(
        StrCat("linear: a weight in F8 with scales must begin at a multiple of ", kWide, " bytes"));
  }
  SLUICE_ASSIGN_OR_RETURN(const F8Codes x, QuantizeF8(stream, desc, args));
  const F8Shape shape = {
      .m = m, .n = desc.n, .k = desc.k, .compute_units = FactsOf(stream).compute_units};
  return MultiplyF8(stream, desc, args, x, PlanF8(shape));
}

}  // namespace

void RegisterF8Linear(ops::OpTable& table) {
  table.Add<Linear>({.name = "sm90_f8_linear",
                     .supports = &Supports,
                     .run = &Run,
                     .arithmetic = ops::Arithmetic::kAsReference,
                     .scratch_bytes = &ScratchBytes});
}

}  // namespace sluice::cuda
