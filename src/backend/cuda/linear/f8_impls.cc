#include "backend/cuda/linear/f8_impls.h"

#include <algorithm>

#include "backend/cuda/alignment.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/linear/cublaslt.h"
#include "backend/cuda/linear/f8_config.h"
#include "backend/cuda/linear/f8_product.h"
#include "ops/linear.h"

namespace sluice::cuda {
namespace {

using ops::ActivationScales;
using ops::Linear;
using ops::WeightScales;

ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts&) {
  return SupportsF8(desc);
}

size_t ScratchBytes(const Linear::Desc& desc, const ops::StepLimits& limits,
                    const device::DeviceFacts&) {
  return F8ScratchOf(std::max(limits.tokens, limits.logits_rows), desc.k,
                     desc.x_scales == ActivationScales::kBlock)
      .bytes;
}

// Scales of blocks that cuBLASLt reads at a time: a row of W's has a multiple of them, and so has
// x for a unit of k.
constexpr int64_t kScalesTogether = 4;

// Rows begin where cuBLASLt takes them, and scales of x lie densely.
bool LieAsTaken(const Linear::Desc& desc, const Linear::Args& args, const F8Codes& x) {
  constexpr size_t kWide = 16;
  const int64_t m = args.out.dims[0];
  const bool taken = desc.x_scales != ActivationScales::kBlock ||
                     (x.scale_stride == m && m % kScalesTogether == 0);
  return taken && RowsBeginAt(args.out, kWide) &&
         (!desc.residual || RowsBeginAt(args.residual, kWide)) &&
         (!desc.bias || RowsBeginAt(args.bias, kWide));
}

class Products final : public ops::Kept<Linear> {
 public:
  // Two launches for every m where x is not codes yet: it becomes some, then the product.
  Status Run(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args) override {
    SLUICE_RETURN_IF_ERROR(ops::CheckLinearArgs(desc, args, ops::LayoutId::kRowMajor, true));
    if (args.x.dims[0] == 0) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const F8Codes x, QuantizeF8(stream, desc, args));
    if (CublasLtMayTake(desc)) {
      const ProductKind kind = KindOf(desc);
      const ProductCall call = CallOf(desc, args, x);
      const auto ours = [&](const ProductCall& product) {
        return Compared(stream, desc, args, product);
      };
      SLUICE_ASSIGN_OR_RETURN(const LtAlgorithm* const joining,
                              join_.For(stream, kind, call, ours, kF8FewRows));
      if (joining != nullptr && LieAsTaken(desc, args, x)) {
        return CublasLtOf(stream).Multiply(stream, kind, call, *joining);
      }
    }
    const auto make = [&] { return PlanFor(stream, desc, args.out.dims[0]); };
    SLUICE_ASSIGN_OR_RETURN(const F8Plan* const plan, kept_.plan.Of(args.out.dims[0], make));
    return MultiplyF8(stream, desc, args, x, *plan, nullptr, &kept_.weight);
  }

 private:
  static F8Plan PlanFor(device::Stream& stream, const Linear::Desc& desc, int64_t m) {
    return PlanF8(
        {.m = m, .n = desc.n, .k = desc.k, .compute_units = FactsOf(stream).compute_units});
  }
  static ProductKind KindOf(const Linear::Desc& desc) {
    return {desc.activation,   desc.n, desc.k, desc.bias, desc.residual, desc.f32_out,
            desc.weight_scales};
  }
  static ProductCall CallOf(const Linear::Desc& desc, const Linear::Args& args, const F8Codes& x) {
    const int64_t m = args.out.dims[0];
    return {.m = m,
            .x = x.codes,
            .weight = args.weight->data.data,
            .bias = args.bias.data,
            .residual = args.residual.data,
            .out = args.out.data,
            .x_stride = x.row_bytes,
            .residual_stride = m > 1 ? args.residual.strides[0] : desc.n,
            .out_stride = m > 1 ? args.out.strides[0] : desc.n,
            .weight_scales = args.weight->scales.ptr<float>(),
            .x_scales = x.scales};
  }
  // By our kernels, what algorithms are compared with: of `args` what does not differ from row to
  // row.
  static Status Compared(device::Stream& stream, const Linear::Desc& desc, Linear::Args args,
                         const ProductCall& product) {
    args.out.data = static_cast<std::byte*>(product.out);
    args.out.dims[0] = args.residual.dims[0] = product.m;
    args.out.strides[0] = product.out_stride;
    args.residual.data = static_cast<std::byte*>(const_cast<void*>(product.residual));
    args.residual.strides[0] = product.residual_stride;
    const F8Codes x = {static_cast<const std::byte*>(product.x), product.x_stride, product.x_scales,
                       product.m};
    return MultiplyF8(stream, desc, args, x, PlanFor(stream, desc, product.m));
  }

  F8Kept kept_;
  LtJoin join_;
};

}  // namespace

bool CublasLtMayTake(const Linear::Desc& desc) {
  constexpr int64_t kRows = 8;
  if (desc.activation == DType::kF32 || desc.n % kRows != 0 || desc.k % kF8Unit != 0) return false;
  if (desc.weight_scales == WeightScales::kBlock) {
    return desc.x_scales == ActivationScales::kBlock && desc.k / kF8Unit % kScalesTogether == 0;
  }
  if (desc.residual || desc.bias) return false;
  return desc.weight_scales == WeightScales::kRow ? desc.x_scales == ActivationScales::kRow
                                                  : desc.x_scales == ActivationScales::kTensor;
}

void RegisterF8Linear(ops::OpTable& table) {
  table.Add<Linear>({.name = "sm90_f8_linear",
                     .supports = &Supports,
                     .arithmetic = ops::Arithmetic::kAsReference,
                     .scratch_bytes = &ScratchBytes,
                     .keep = &ops::Keep<Products, Linear>});
  table.Attach("sm90_f8_linear", ops::TakesCodedRows{});
}

}  // namespace sluice::cuda
