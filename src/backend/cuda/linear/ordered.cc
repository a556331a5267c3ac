#include "backend/cuda/linear/ordered.h"

#include "backend/cuda/launch.h"
#include "backend/cuda/linear/cublaslt.h"
#include "backend/cuda/linear/params.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kRowsMax = 65536;

}  // namespace

bool HasOrdered(const ProductKind& kind) {
  return kind.k % kOrderedStep == 0 && kind.n <= kRowsMax;
}

Status MultiplyOrdered(device::Stream& stream, const ProductKind& kind, const ProductCall& call) {
  const LinearParams params = {.x = call.x,
                               .weight = call.weight,
                               .bias = kind.bias ? call.bias : nullptr,
                               .residual = kind.residual ? call.residual : nullptr,
                               .out = call.out,
                               .out_stride = call.out_stride,
                               .residual_stride = call.residual_stride,
                               .row_bytes = kind.k * 2,
                               .x_stride = static_cast<int>(call.x_stride / 8),
                               .m = static_cast<int>(call.m),
                               .n = static_cast<int>(kind.n),
                               .k = static_cast<int>(kind.k),
                               .bias_type = kind.type,
                               .result = kind.f32_out ? DType::kF32 : kind.type};
  const char* const function = kind.type == DType::kF16 ? "f16_ordered" : "bf16_ordered";
  const LaunchShape shape = {
      .grid = {static_cast<unsigned>((kind.n + kOrderedRows - 1) / kOrderedRows)},
      .block = {kOrderedThreads},
      .shared_bytes = static_cast<unsigned>(kOrderedSharedBytes)};
  return Launch(stream, {"sm90_ordered_linear", function}, shape, params);
}

}  // namespace sluice::cuda
