#include "backend/cuda/linear/product.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/launch.h"

namespace sluice::cuda {
namespace {

using ops::Linear;

constexpr int64_t kRowsMax = 65535 * 16;  // of W: blocks in a grid's second dimension
constexpr int64_t kColumnsMax = int64_t{1} << 24;
constexpr size_t kWide = 16;  // bytes that kernels read at a time

bool IsWide(const void* p) { return reinterpret_cast<uintptr_t>(p) % kWide == 0; }

// Of the words in which kernels read a block format.
size_t AlignmentOf(DType weight) {
  switch (weight) {
    case DType::kQ4_K:
    case DType::kQ5_K:
      return 16;
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ2_K:
      return 4;
    case DType::kMXFP4:
      return 1;
    default:
      return 2;
  }
}

}  // namespace

DType FactorType(LinearArithmetic arithmetic) {
  if (arithmetic == LinearArithmetic::kExact) return DType::kF32;
  return arithmetic == LinearArithmetic::kBf16 ? DType::kBF16 : DType::kF16;
}

ops::Support SupportsProduct(LinearArithmetic arithmetic, const Linear::Desc& desc) {
  if (arithmetic != LinearArithmetic::kExact &&
      NativeArithmetic(desc.weight, desc.activation) != arithmetic) {
    return ops::Support::No(
        StrCat(Name(desc.weight), " weights on ", Name(desc.activation), " activations"));
  }
  if (FindLinearFamily(arithmetic, desc.weight) == nullptr) {
    return ops::Support::No(StrCat("weights in ", Name(desc.weight)));
  }
  if (desc.activation != DType::kF32 && desc.activation != DType::kF16 &&
      desc.activation != DType::kBF16) {
    return ops::Support::No(StrCat("activations in ", Name(desc.activation)));
  }
  if (const ops::Support plain = ops::NoWeightScales(desc); !plain.ok) return plain;
  if (desc.ordered) {
    return ops::Support::No(
        "columns in an order of their own (act order), which CUDA has no products for");
  }
  if (desc.n < 1 || desc.k < 1 || desc.k % Info(desc.weight).block != 0) {
    return ops::Support::No(StrCat("k = ", desc.k, " is no multiple of the block of ",
                                   Info(desc.weight).block, " elements"));
  }
  if (desc.n > kRowsMax || desc.k > kColumnsMax) {
    return ops::Support::No(StrCat("more than ", kRowsMax, " rows of ", kColumnsMax));
  }
  return ops::Support::Yes();
}

size_t ProductScratchBytes(LinearArithmetic arithmetic, const Linear::Desc& desc, int64_t rows) {
  const int64_t unit = LinearUnitOf(desc.weight);
  const int64_t width = (desc.k + unit - 1) / unit * unit;
  return static_cast<size_t>(rows * width) * Info(FactorType(arithmetic)).bytes;
}

Result<LinearCall> PlanCall(LinearArithmetic arithmetic, const device::DeviceFacts& facts,
                            const Linear::Desc& desc, const Linear::Args& args,
                            const Grouping* grouping) {
  const std::byte* weight = args.weight->data.data;
  const bool plain = IsPlainWeight(desc.weight);
  if (!plain && reinterpret_cast<uintptr_t>(weight) % AlignmentOf(desc.weight) != 0) {
    return InvalidArgument(StrCat("linear: a weight in ", Name(desc.weight),
                                  " must begin at a multiple of ", AlignmentOf(desc.weight),
                                  " bytes"));
  }
  LinearCall call;
  call.family = FindLinearFamily(arithmetic, desc.weight);
  const int64_t m = args.out.dims[0], rows = args.x.dims[0];
  call.plan =
      PlanLinear(*call.family, desc.weight,
                 {.m = m,
                  .n = desc.n,
                  .k = desc.k,
                  .compute_units = facts.compute_units,
                  .experts = grouping == nullptr ? 1 : grouping->experts,
                  .any_rows = !RowsFitUnits(desc.weight, desc.k) || (plain && !IsWide(weight))});
  const int64_t width = int64_t{call.plan.units} * LinearUnitOf(desc.weight);
  const DType type = FactorType(arithmetic);
  const size_t element = static_cast<size_t>(Info(type).bytes);
  int64_t stride = args.x.strides[0];
  call.staged = desc.activation != type || width != desc.k || !IsWide(args.x.data) ||
                (rows > 1 && stride * element % kWide != 0);
  if (call.staged) stride = width;
  if (rows == 1) stride = 0;
  const int64_t wide_stride = stride * static_cast<int64_t>(element) / static_cast<int64_t>(kWide);
  if (std::max(m, rows) > std::numeric_limits<int>::max() / (wide_stride + 1)) {
    return InvalidArgument(
        StrCat("linear: ", std::max(m, rows), " rows of ", stride, " elements are too many"));
  }
  call.stage = {.x = args.x.data,
                .x_stride = args.x.strides[0],
                .m = static_cast<int>(rows),
                .k = static_cast<int>(desc.k),
                .width = static_cast<int>(width),
                .from = desc.activation,
                .to = type};
  call.params = {
      .x = args.x.data,
      .weight = weight,
      .bias = desc.bias ? args.bias.data : nullptr,
      .residual = desc.residual ? args.residual.data : nullptr,
      .out = args.out.data,
      .out_stride = args.out.strides[0],
      .residual_stride = desc.residual ? args.residual.strides[0] : 0,
      .row_bytes = static_cast<int64_t>(RowBytes(desc.weight, static_cast<size_t>(desc.k))),
      .x_stride = static_cast<int>(wide_stride),
      .m = static_cast<int>(m),
      .n = static_cast<int>(desc.n),
      .k = static_cast<int>(desc.k),
      .units = call.plan.units,
      .units_per_slice = call.plan.units_per_slice,
      .bias_type = desc.activation,
      .result = ops::OutDType(desc)};
  return call;
}

Status PutCall(device::Stream& stream, const Linear::Desc& desc, LinearCall& call,
               const Grouping* grouping) {
  if (call.staged) {
    const size_t bytes = static_cast<size_t>(call.stage.m) * static_cast<size_t>(call.stage.width) *
                         static_cast<size_t>(Info(call.stage.to).bytes);
    SLUICE_ASSIGN_OR_RETURN(std::byte * copy, Scratch(stream, bytes));
    call.stage.out = copy;
    call.params.x = copy;
    const LaunchShape rows = {.grid = {static_cast<unsigned>(call.stage.m)},
                              .block = {kLinearThreads}};
    SLUICE_RETURN_IF_ERROR(Launch(stream, {"sm90_any_stage_rows", "stage_rows"}, rows, call.stage));
  }
  const LinearPlan& plan = call.plan;
  const LaunchShape shape = {.grid = {plan.token_blocks, plan.row_blocks},
                             .block = {kLinearThreads},
                             .shared_bytes = static_cast<unsigned>(plan.kernel->shared_bytes),
                             .cached = true};
  if (grouping == nullptr)
    return Launch(stream, {call.family->module, plan.kernel->function}, shape, call.params);
  const GroupedLinearParams params = {
      .each = call.params,
      .tokens = grouping->tokens,
      .starts = grouping->starts,
      .expert_bytes = call.params.row_bytes * desc.n,
      .bias_bytes = grouping->bias_stride * Info(desc.activation).bytes,
      .experts = grouping->experts};
  return Launch(stream, {call.family->module, plan.kernel->grouped}, shape, params);
}

}  // namespace sluice::cuda
