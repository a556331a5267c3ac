#include "backend/cuda/linear/f8_impls.h"

#include <algorithm>

#include "backend/cuda/launch.h"
#include "backend/cuda/linear/f8_config.h"
#include "backend/cuda/linear/f8_product.h"
#include "ops/linear.h"

namespace sluice::cuda {
namespace {

using ops::ActivationScales;
using ops::Linear;

ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts&) {
  return SupportsF8(desc);
}

size_t ScratchBytes(const Linear::Desc& desc, const ops::StepLimits& limits,
                    const device::DeviceFacts&) {
  return F8ScratchOf(std::max(limits.tokens, limits.logits_rows), desc.k,
                     desc.x_scales == ActivationScales::kBlock)
      .bytes;
}

class Products final : public ops::Kept<Linear> {
 public:
  // Two launches for every m where x is not codes yet: it becomes some, then the product.
  Status Run(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args) override {
    SLUICE_RETURN_IF_ERROR(ops::CheckLinearArgs(desc, args, ops::LayoutId::kRowMajor, true));
    const int64_t m = args.x.dims[0];
    if (m == 0) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const F8Codes x, QuantizeF8(stream, desc, args));
    const auto make = [&] {
      return PlanF8(
          {.m = m, .n = desc.n, .k = desc.k, .compute_units = FactsOf(stream).compute_units});
    };
    SLUICE_ASSIGN_OR_RETURN(const F8Plan* const plan, kept_.plan.Of(m, make));
    return MultiplyF8(stream, desc, args, x, *plan, nullptr, &kept_.weight);
  }

 private:
  F8Kept kept_;
};

}  // namespace

void RegisterF8Linear(ops::OpTable& table) {
  table.Add<Linear>({.name = "sm90_f8_linear",
                     .supports = &Supports,
                     .arithmetic = ops::Arithmetic::kAsReference,
                     .scratch_bytes = &ScratchBytes,
                     .keep = &ops::Keep<Products, Linear>});
  table.Attach("sm90_f8_linear", ops::TakesCodedRows{});
}

}  // namespace sluice::cuda
