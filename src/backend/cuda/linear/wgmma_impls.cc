#include "backend/cuda/linear/wgmma_impls.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/alignment.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/linear/params.h"
#include "ops/linear.h"

namespace sluice::cuda {
namespace {

using ops::Linear;

constexpr size_t kWide = 16;  // bytes: where rows begin
constexpr int64_t kSizeMax = int64_t{1} << 24;

template <DType kType>
ops::Support Supports(const Linear::Desc& desc, const device::DeviceFacts&) {
  if (desc.weight != kType || desc.activation != kType) {
    return ops::Support::No(
        StrCat(Name(desc.weight), " weights on ", Name(desc.activation), " activations"));
  }
  if (desc.n < 1 || desc.k < 1 || desc.n % 8 != 0 || desc.k % 8 != 0 || desc.n > kSizeMax ||
      desc.k > kSizeMax) {
    return ops::Support::No(
        StrCat("n = ", desc.n, " and k = ", desc.k, " must be multiples of 8 up to 2^24"));
  }
  return ops::Support::Yes();
}

// A copy of x with rows at multiples of 16 bytes.
Result<const void*> Staged(device::Stream& stream, const Linear::Desc& desc, const ops::Tensor& x) {
  const int64_t m = x.dims[0];
  SLUICE_ASSIGN_OR_RETURN(std::byte * copy, Scratch(stream, static_cast<size_t>(m * desc.k) * 2));
  const StageParams params = {.x = x.data,
                              .out = copy,
                              .x_stride = x.strides[0],
                              .m = static_cast<int>(m),
                              .k = static_cast<int>(desc.k),
                              .width = static_cast<int>(desc.k),
                              .from = desc.activation,
                              .to = desc.activation};
  const LaunchShape rows = {.grid = {static_cast<unsigned>(m), 1, 1},
                            .block = {kLinearThreads, 1, 1}};
  SLUICE_RETURN_IF_ERROR(Launch(stream, {"sm90_any_stage_rows", "stage_rows"}, rows, params));
  return static_cast<const void*>(copy);
}

size_t ScratchBytes(const Linear::Desc& desc, const ops::StepLimits& limits,
                    const device::DeviceFacts&) {
  return static_cast<size_t>(std::max(limits.tokens, limits.logits_rows) * desc.k) * 2;
}

Status CheckAligned(const Linear::Desc& desc, const Linear::Args& args) {
  const bool aligned = reinterpret_cast<uintptr_t>(args.weight->data.data) % kWide == 0 &&
                       RowsBeginAt(args.out, kWide) &&
                       (!desc.residual || RowsBeginAt(args.residual, kWide)) &&
                       (!desc.bias || RowsBeginAt(args.bias, kWide));
  return aligned ? OkStatus()
                 : InvalidArgument(
                       "linear: in 16 bits the weight, the bias and every row of residual and out "
                       "must begin at a multiple of 16 bytes");
}

// Of one weight: what cuBLASLt has for it, the plan for the rows of the call before, and the map of
// the weight in its tiles.
class Products final : public ops::Kept<Linear> {
 public:
  // Launches of one call: one, or two where x is staged, for every m.
  Status Run(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args) override {
    SLUICE_RETURN_IF_ERROR(ops::CheckLinearArgs(desc, args, ops::LayoutId::kRowMajor));
    const int64_t m = args.x.dims[0];
    if (m == 0) return OkStatus();
    if (m > std::numeric_limits<int32_t>::max() / 2)
      return InvalidArgument(StrCat("linear: ", m, " rows are too many"));
    SLUICE_RETURN_IF_ERROR(CheckAligned(desc, args));
    ProductCall call = {.m = m,
                        .x = args.x.data,
                        .weight = args.weight->data.data,
                        .bias = args.bias.data,
                        .residual = args.residual.data,
                        .out = args.out.data,
                        .x_stride = m > 1 ? args.x.strides[0] : desc.k,
                        .residual_stride = m > 1 ? args.residual.strides[0] : desc.n,
                        .out_stride = m > 1 ? args.out.strides[0] : desc.n};
    if (!RowsBeginAt(args.x, kWide)) {
      SLUICE_ASSIGN_OR_RETURN(call.x, Staged(stream, desc, args.x));
      call.x_stride = desc.k;
    }
    const ProductKind kind = {desc.activation, desc.n,        desc.k,
                              desc.bias,       desc.residual, desc.f32_out};
    const auto ours = [&](const ProductCall& product) { return Ours(stream, kind, product); };
    SLUICE_ASSIGN_OR_RETURN(const LtAlgorithm* const joining,
                            join_.For(stream, kind, call, ours, kFewTokens));
    if (joining == nullptr) return Ours(stream, kind, call);
    return CublasLtOf(stream).Multiply(stream, kind, call, *joining);
  }

 private:
  Status Ours(device::Stream& stream, const ProductKind& kind, const ProductCall& call) {
    const auto plan = [&] {
      return PlanWgmma(
          {.m = call.m, .n = kind.n, .k = kind.k, .compute_units = FactsOf(stream).compute_units});
    };
    SLUICE_ASSIGN_OR_RETURN(const WgmmaPlan* const made, plan_.Of(call.m, plan));
    return MultiplyWgmma(stream, kind, call, *made, &weight_);
  }

  LtJoin join_;
  ops::LastValue<int64_t, WgmmaPlan> plan_;  // by rows of x
  KeptMap weight_;
};

}  // namespace

Status MultiplyWgmma(device::Stream& stream, const ProductKind& kind, const ProductCall& call,
                     const WgmmaPlan& plan, KeptMap* weight) {
  const int64_t row_bytes = kind.k * 2;
  WgmmaParams params = {.bias = kind.bias ? call.bias : nullptr,
                        .residual = kind.residual ? call.residual : nullptr,
                        .out = call.out,
                        .out_stride = call.out_stride,
                        .residual_stride = call.residual_stride,
                        .m = static_cast<int>(call.m),
                        .n = static_cast<int>(kind.n),
                        .k = static_cast<int>(kind.k),
                        .rows = plan.rows,
                        .row_tiles = plan.row_tiles,
                        .token_tiles = plan.token_tiles,
                        .x_rows = plan.tokens,
                        .stages = plan.stages,
                        .f32_out = kind.f32_out};
  SLUICE_ASSIGN_OR_RETURN(params.w,
                          MapKept(weight, {call.weight, kind.n, row_bytes, row_bytes, plan.rows}));
  SLUICE_ASSIGN_OR_RETURN(params.x,
                          MapBytes(call.x, call.m, row_bytes, call.x_stride * 2, params.x_rows));
  const LaunchShape shape = {.grid = {plan.blocks},
                             .block = {static_cast<unsigned>(WgmmaThreads(plan.kernel->groups))},
                             .shared_bytes = static_cast<unsigned>(plan.shared_bytes)};
  const KernelId kernel = kind.type == DType::kF16
                              ? KernelId{"sm90_f16_wgmma", plan.kernel->f16_function}
                              : KernelId{"sm90_bf16_wgmma", plan.kernel->bf16_function};
  return Launch(stream, kernel, shape, params);
}

void RegisterWgmmaLinear(ops::OpTable& table) {
  table.Add<Linear>({.name = "sm90_bf16_linear_wgmma",
                     .supports = &Supports<DType::kBF16>,
                     .arithmetic = ops::Arithmetic::kBf16,
                     .scratch_bytes = &ScratchBytes,
                     .keep = &ops::Keep<Products, Linear>});
  table.Add<Linear>({.name = "sm90_f16_linear_wgmma",
                     .supports = &Supports<DType::kF16>,
                     .arithmetic = ops::Arithmetic::kF16,
                     .scratch_bytes = &ScratchBytes,
                     .keep = &ops::Keep<Products, Linear>});
}

}  // namespace sluice::cuda
