#include "backend/cuda/linear/impls.h"

#include <algorithm>

#include "backend/cuda/launch.h"
#include "backend/cuda/linear/block_wgmma.h"
#include "backend/cuda/linear/f8_impls.h"
#include "backend/cuda/linear/product.h"
#include "backend/cuda/linear/wgmma_impls.h"
#include "ops/linear.h"

namespace sluice::cuda {

namespace {

using ops::Linear;

template <LinearArithmetic kArithmetic>
struct Implementation {
  static ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts&) {
    return SupportsProduct(kArithmetic, desc);
  }

  class Products final : public ops::Kept<Linear> {
   public:
    Status Run(device::Stream& stream, const Linear::Desc& desc,
               const Linear::Args& args) override {
      SLUICE_RETURN_IF_ERROR(ops::CheckLinearArgs(desc, args, ops::LayoutId::kRowMajor));
      if (args.x.dims[0] == 0) return OkStatus();
      const ProductTerms terms = {.arithmetic = kArithmetic, .warpgroups = true, .kept = &choice_};
      SLUICE_ASSIGN_OR_RETURN(LinearCall call, PlanCall(terms, FactsOf(stream), desc, args));
      return PutCall(stream, desc, call, nullptr);
    }

   private:
    KeptChoice choice_;
  };

  static std::string_view Slow(const Linear::Desc& desc) {
    if (kArithmetic == LinearArithmetic::kExact) {
      return desc.activation == DType::kF32
                 ? ""
                 : "activations of 16 bits are widened and multiplied as three terms each";
    }
    // Measured on an H200 with models of 8B shape.
    return IsQuantized(desc.weight)
               ? "prefill takes two and a half times as long as with BF16 weights"
               : "prefill takes three times as long as with rows of a multiple of 8";
  }

  // A copy of x, for activations of another type or rows that lie otherwise than they are read.
  static size_t ScratchBytes(const Linear::Desc& desc, const ops::StepLimits& limits,
                             const device::DeviceFacts&) {
    const int64_t rows = std::max(limits.tokens, limits.logits_rows);
    const size_t staged = ProductScratchBytes(kArithmetic, desc, rows);
    if (kArithmetic != LinearArithmetic::kBf16 || BlockWgmmaFunction(desc.weight) == nullptr)
      return staged;
    return std::max(staged, BlockWgmmaScratchBytes(desc, rows));
  }

  static void Register(ops::OpTable& table, std::string_view name, ops::Arithmetic arithmetic) {
    table.Add<Linear>({.name = name,
                       .supports = &Supports,
                       .arithmetic = arithmetic,
                       .slow = &Slow,
                       .scratch_bytes = &ScratchBytes,
                       .keep = &ops::Keep<Products, Linear>});
  }
};

}  // namespace

void RegisterLinear(ops::OpTable& table) {
  RegisterWgmmaLinear(table);
  RegisterF8Linear(table);
  Implementation<LinearArithmetic::kBf16>::Register(table, "sm90_bf16_linear",
                                                    ops::Arithmetic::kBf16);
  Implementation<LinearArithmetic::kF16>::Register(table, "sm90_f16_linear", ops::Arithmetic::kF16);
  Implementation<LinearArithmetic::kExact>::Register(table, "sm90_f32_linear",
                                                     ops::Arithmetic::kF32);
}

}  // namespace sluice::cuda
