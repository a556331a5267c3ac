#include "backend/cuda/dense_chain/phases.h"

#include "backend/cuda/alignment.h"
#include "backend/cuda/narrow_map.h"
#include "base/str_cat.h"

namespace sluice::cuda {

Result<TensorMap> MapStages(const ops::PackedWeight& weight, int number_bytes) {
  const auto rows = static_cast<uint64_t>(weight.n),
             row_bytes = static_cast<uint64_t>(weight.k * number_bytes);
  return MapNarrowBoxes({.data = weight.data.data,
                         .number_bytes = 1,
                         .dims = {kChainUnit, rows, row_bytes / kChainUnit, 1},
                         .strides = {row_bytes, kChainUnit, rows * row_bytes},
                         .box = {kChainUnit, kChainSlab, kChainStageUnits, 1}});
}

Status SetPhaseWeight(const ops::PackedWeight& weight, int64_t matrices, ChainPhase& phase) {
  phase.n = static_cast<int>(weight.n / matrices);
  phase.k = static_cast<int>(weight.k);
  phase.w_scales = weight.scales.ptr<float>();
  SLUICE_ASSIGN_OR_RETURN(phase.w, MapStages(weight, 1));
  return OkStatus();
}

void SetPhaseRows(const ops::Tensor& x, const ops::Tensor& norm, const ops::Tensor& residual,
                  const ops::Tensor& out, ChainPhase& phase) {
  phase.x = x.data;
  phase.x_stride = x.strides[0];
  phase.norm = norm.ptr<float>();
  phase.residual = residual.data;
  phase.residual_stride = residual.empty() ? 0 : residual.strides[0];
  phase.out = out.data;
  phase.out_stride = out.strides[0];
}

Status CheckPhaseAlignment(std::string_view op, std::initializer_list<const ops::Tensor*> rows,
                           std::initializer_list<const ops::PackedWeight*> weights) {
  constexpr int64_t kWide = 16;
  bool ok = true;
  for (const ops::Tensor* tensor : rows)
    ok = ok && (tensor->empty() || RowsBeginAt(*tensor, kWide));
  for (const ops::PackedWeight* weight : weights) {
    if (weight == nullptr) continue;
    ok = ok && reinterpret_cast<uintptr_t>(weight->data.data) % kWide == 0 &&
         reinterpret_cast<uintptr_t>(weight->scales.data) % kWide == 0;
  }
  if (ok) return OkStatus();
  return InvalidArgument(
      StrCat(op, ": rows, weights and their scales must begin at multiples of ", kWide, " bytes"));
}

}  // namespace sluice::cuda
