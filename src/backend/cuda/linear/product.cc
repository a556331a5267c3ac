#include "backend/cuda/linear/product.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/alignment.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/linear/block_wgmma.h"

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

ProductChoice ChooseProduct(LinearArithmetic arithmetic, DType weight, const LinearShape& shape,
                            bool warpgroups) {
  ProductChoice choice = {.family = FindLinearFamily(arithmetic, weight)};
  choice.warpgroups = warpgroups && arithmetic == LinearArithmetic::kBf16 &&
                      BlockWgmmaFunction(weight) != nullptr && SuitsBlockWgmma(shape);
  choice.plan =
      choice.warpgroups ? SplitOf(weight, shape.k) : PlanLinear(*choice.family, weight, shape);
  return choice;
}

namespace {

// What kernels are told of a product, but for how x lies and how it is split.
LinearParams ParamsOf(const Linear::Desc& desc, const Linear::Args& args) {
  return {.x = args.x.data,
          .weight = args.weight->data.data,
          .bias = desc.bias ? args.bias.data : nullptr,
          .residual = desc.residual ? args.residual.data : nullptr,
          .out = args.out.data,
          .out_stride = args.out.strides[0],
          .residual_stride = desc.residual ? args.residual.strides[0] : 0,
          .row_bytes = static_cast<int64_t>(RowBytes(desc.weight, static_cast<size_t>(desc.k))),
          .m = static_cast<int>(args.out.dims[0]),
          .n = static_cast<int>(desc.n),
          .k = static_cast<int>(desc.k),
          .bias_type = desc.activation,
          .result = ops::OutDType(desc)};
}

Result<ProductChoice> ChoiceFor(const ProductTerms& terms, const device::DeviceFacts& facts,
                                const Linear::Desc& desc, const Linear::Args& args) {
  constexpr size_t kWgmmaRows = 8;  // bytes at whose multiples warpgroups read rows of x
  const bool plain = IsPlainWeight(desc.weight);
  const ChoiceKey key = {
      .m = args.out.dims[0],
      .any_rows = !RowsFitUnits(desc.weight, desc.k) || (plain && !IsWide(args.weight->data.data)),
      .warpgroups = terms.warpgroups && RowsBeginAt(args.x, kWgmmaRows)};
  const auto choose = [&] {
    return ChooseProduct(terms.arithmetic, desc.weight,
                         {.m = key.m,
                          .n = desc.n,
                          .k = desc.k,
                          .compute_units = facts.compute_units,
                          .experts = terms.grouping == nullptr ? 1 : terms.grouping->experts,
                          .any_rows = key.any_rows},
                         key.warpgroups);
  };
  if (terms.kept == nullptr) return choose();
  SLUICE_ASSIGN_OR_RETURN(const ProductChoice* const choice, terms.kept->Of(key, choose));
  return *choice;
}

}  // namespace

Result<LinearCall> PlanCall(const ProductTerms& terms, const device::DeviceFacts& facts,
                            const Linear::Desc& desc, const Linear::Args& args) {
  if (!IsPlainWeight(desc.weight) &&
      reinterpret_cast<uintptr_t>(args.weight->data.data) % AlignmentOf(desc.weight) != 0) {
    return InvalidArgument(StrCat("linear: a weight in ", Name(desc.weight),
                                  " must begin at a multiple of ", AlignmentOf(desc.weight),
                                  " bytes"));
  }
  LinearCall call;
  SLUICE_ASSIGN_OR_RETURN(call.choice, ChoiceFor(terms, facts, desc, args));
  call.params = ParamsOf(desc, args);
  const int64_t m = args.out.dims[0], rows = args.x.dims[0];
  const LinearPlan& plan = call.choice.plan;
  const int64_t width =
      call.choice.warpgroups ? desc.k : int64_t{plan.units} * LinearUnitOf(desc.weight);
  const DType type = FactorType(terms.arithmetic);
  const size_t element = static_cast<size_t>(Info(type).bytes);
  int64_t stride = args.x.strides[0];
  call.staged = !call.choice.warpgroups &&
                (desc.activation != type || width != desc.k || !IsWide(args.x.data) ||
                 (rows > 1 && stride * element % kWide != 0));
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
  call.params.x_stride = static_cast<int>(wide_stride);
  call.params.units = plan.units;
  call.params.units_per_slice = plan.units_per_slice;
  return call;
}

Status PutCall(device::Stream& stream, const Linear::Desc& desc, LinearCall& call,
               const Grouping* grouping) {
  if (call.choice.warpgroups) {
    return MultiplyBlockWgmma(stream, desc, call.params, call.stage.x, call.stage.x_stride,
                              FactsOf(stream).compute_units);
  }
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
  const LinearPlan& plan = call.choice.plan;
  const LaunchShape shape = {.grid = {plan.token_blocks, plan.row_blocks},
                             .block = {kLinearThreads},
                             .shared_bytes = static_cast<unsigned>(plan.kernel->shared_bytes),
                             .cached = true};
  if (grouping == nullptr)
    return Launch(stream, {call.choice.family->module, plan.kernel->function}, shape, call.params);
  const GroupedLinearParams params = {
      .each = call.params,
      .tokens = grouping->tokens,
      .starts = grouping->starts,
      .expert_bytes = call.params.row_bytes * desc.n,
      .bias_bytes = grouping->bias_stride * Info(desc.activation).bytes,
      .experts = grouping->experts};
  return Launch(stream, {call.choice.family->module, plan.kernel->grouped}, shape, params);
}

}  // namespace sluice::cuda
