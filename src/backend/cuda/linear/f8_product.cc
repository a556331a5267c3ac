#include "backend/cuda/linear/f8_product.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/alignment.h"
#include "backend/cuda/launch.h"

namespace sluice::cuda {
namespace {

using ops::ActivationScales;
using ops::Linear;
using ops::WeightScales;

constexpr int64_t kWide = 16;  // bytes: where the copy engine's rows begin
constexpr int64_t kSizeMax = int64_t{1} << 24;

bool HasBlocks(const Linear::Desc& desc) {
  return desc.weight_scales == WeightScales::kBlock || desc.x_scales == ActivationScales::kBlock;
}

// Rows of residual and out begin where words of four elements may, or of eight in 16 bits.
bool TakesWords(const Linear::Args& args) {
  return RowsBeginAt(args.out, kWide) &&
         (args.residual.empty() || RowsBeginAt(args.residual, kWide));
}

const char* FunctionOf(const F8Kernel& kernel, const Linear::Desc& desc, bool grouped) {
  if (grouped)
    return HasBlocks(desc) ? kernel.grouped_blocks_function : kernel.grouped_rows_function;
  return HasBlocks(desc) ? kernel.blocks_function : kernel.rows_function;
}

// Of out or the residual in 16 bits. The stride of one row is whatever it is.
Result<TensorMap> MapOutputs(const Linear::Desc& desc, const ops::Tensor& rows, int box_rows) {
  const int64_t m = rows.dims[0], dense = (desc.n * 2 + kWide - 1) / kWide * kWide;
  return MapBytes(rows.data, m, desc.n * 2, m > 1 ? rows.strides[0] * 2 : dense, box_rows);
}

const char* QuantizeFunction(ActivationScales scales) {
  if (scales == ActivationScales::kTensor) return "f8_quantize_tensor";
  return scales == ActivationScales::kRow ? "f8_quantize_rows" : "f8_quantize_blocks";
}

// A scale of a whole row is found by one thread block, by threads that take two parts of it or
// more.
LaunchShape QuantizeShape(const Linear::Desc& desc, int64_t m) {
  constexpr int64_t kEach = 8, kWarp = 32, kThreads = 256;
  if (desc.x_scales == ActivationScales::kRow) {
    const int64_t warps = (desc.k + 2 * kEach * kWarp - 1) / (2 * kEach * kWarp);
    const int64_t threads = std::min<int64_t>(warps * kWarp, kF8QuantizeThreadsMax);
    return {.grid = {static_cast<unsigned>(m)}, .block = {static_cast<unsigned>(threads)}};
  }
  const int64_t parts = (desc.k + kThreads * kEach - 1) / (kThreads * kEach);
  return {.grid = {static_cast<unsigned>(m), static_cast<unsigned>(parts)}, .block = {kThreads}};
}

}  // namespace

ops::Support SupportsF8(const Linear::Desc& desc) {
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

namespace {

Result<F8Codes> GivenCodes(const Linear::Args& args) {
  if (!RowsBeginAt(args.x, kWide)) {
    return InvalidArgument(
        StrCat("linear: rows of codes must begin at multiples of ", kWide, " bytes"));
  }
  // The stride of one row, which is read at no other, is whatever it is.
  const int64_t row_bytes = args.x.dims[0] > 1 ? args.x.strides[0] : args.x.dims[1];
  return F8Codes{args.x.data, row_bytes, args.x_scales.ptr<float>(), args.x_scales.strides[0]};
}

}  // namespace

Result<F8Codes> QuantizeF8(device::Stream& stream, const Linear::Desc& desc,
                           const Linear::Args& args, const Grouping* grouping) {
  const int64_t m = args.out.dims[0];
  if (m > std::numeric_limits<int>::max() / kF8ScaleTokens)
    return InvalidArgument(StrCat("linear: ", m, " rows are too many"));
  if (reinterpret_cast<uintptr_t>(args.weight->data.data) % kWide != 0) {
    return InvalidArgument(
        StrCat("linear: a weight in F8 with scales must begin at a multiple of ", kWide, " bytes"));
  }
  if (!args.x_scales.empty()) return GivenCodes(args);
  const F8Scratch layout = F8ScratchOf(m, desc.k, desc.x_scales == ActivationScales::kBlock);
  SLUICE_ASSIGN_OR_RETURN(std::byte * scratch, Scratch(stream, layout.bytes));
  auto* const scales = reinterpret_cast<float*>(scratch + layout.scales);
  const bool fixed = desc.x_scales == ActivationScales::kTensor;
  const F8QuantizeParams params = {
      .x = args.x.data,
      .codes = reinterpret_cast<uint8_t*>(scratch),
      .scales = scales,
      .scale = fixed ? args.weight->x_scale.ptr<float>() : nullptr,
      .x_stride = args.x.strides[0],
      .tokens = grouping == nullptr ? nullptr : grouping->tokens,
      .places = grouping == nullptr ? nullptr : grouping->starts + grouping->experts,
      .scale_stride = static_cast<int>(layout.scale_stride),
      .k = static_cast<int>(desc.k),
      .wide = RowsBeginAt(args.x, kWide),
      .from = desc.activation};
  const LaunchShape shape = QuantizeShape(desc, m);
  SLUICE_RETURN_IF_ERROR(
      Launch(stream, {"sm90_f8_quantize", QuantizeFunction(desc.x_scales)}, shape, params));
  return F8Codes{scratch, desc.k, fixed ? params.scale : scales, layout.scale_stride};
}

Status MultiplyF8(device::Stream& stream, const Linear::Desc& desc, const Linear::Args& args,
                  const F8Codes& x, const F8Plan& plan, const Grouping* grouping, KeptMap* weight) {
  const int64_t m = args.out.dims[0], matrices = grouping == nullptr ? 1 : grouping->experts;
  F8LinearParams params = {.w_scales = args.weight->scales.ptr<float>(),
                           .x_scales = x.scales,
                           .bias = desc.bias ? args.bias.data : nullptr,
                           .residual = desc.residual ? args.residual.data : nullptr,
                           .out = args.out.data,
                           .out_stride = args.out.strides[0],
                           .residual_stride = desc.residual ? args.residual.strides[0] : 0,
                           .x_scale_stride = static_cast<int>(x.scale_stride),
                           .m = static_cast<int>(m),
                           .n = static_cast<int>(desc.n),
                           .k = static_cast<int>(desc.k),
                           .starts = grouping == nullptr ? nullptr : grouping->starts,
                           .experts = grouping == nullptr ? 0 : grouping->experts,
                           .bias_stride = grouping == nullptr ? 0 : grouping->bias_stride,
                           .rows = plan.rows,
                           .row_tiles = plan.row_tiles,
                           .token_tiles = plan.token_tiles,
                           .stages = plan.stages,
                           .stage_bytes = plan.stage_bytes,
                           .w_blocks = desc.weight_scales == WeightScales::kBlock,
                           .x_blocks = desc.x_scales == ActivationScales::kBlock,
                           .w_by_row = desc.weight_scales == WeightScales::kRow,
                           .x_by_row = desc.x_scales == ActivationScales::kRow,
                           .one_scale = desc.weight_scales == WeightScales::kTensor &&
                                        desc.x_scales == ActivationScales::kTensor,
                           .x_in_sums = desc.x_scales == ActivationScales::kBlock ||
                                        (desc.weight_scales == WeightScales::kTensor &&
                                         desc.x_scales == ActivationScales::kTensor),
                           .wide = TakesWords(args),
                           .bias_type = desc.activation,
                           .result = ops::OutDType(desc)};
  SLUICE_ASSIGN_OR_RETURN(params.w, MapKept(weight, {args.weight->data.data, matrices * desc.n,
                                                     desc.k, desc.k, plan.rows}));
  params.x_rows = plan.kernel->tokens / plan.kernel->cluster;
  if (plan.kernel->cluster == 1) params.x_rows = std::min(params.x_rows, params.m);
  SLUICE_ASSIGN_OR_RETURN(params.x, MapBytes(x.codes, m, desc.k, x.row_bytes, params.x_rows));
  params.engine_writes =
      F8HasPlaces(plan.kernel->groups) && params.result != DType::kF32 && params.wide;
  if (params.engine_writes) {
    SLUICE_ASSIGN_OR_RETURN(params.out_map, MapOutputs(desc, args.out, plan.kernel->tokens));
    if (desc.residual) {
      SLUICE_ASSIGN_OR_RETURN(params.residual_map,
                              MapOutputs(desc, args.residual, plan.kernel->tokens));
    }
  }
  const LaunchShape shape = {.grid = {plan.blocks},
                             .block = {static_cast<unsigned>(F8Threads(plan.kernel->groups))},
                             .shared_bytes = static_cast<unsigned>(plan.shared_bytes)};
  return Launch(stream, {"sm90_f8_linear", FunctionOf(*plan.kernel, desc, grouping != nullptr)},
                shape, params);
}

}  // namespace sluice::cuda
