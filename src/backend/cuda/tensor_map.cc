#include "backend/cuda/tensor_map.h"

#include <cstring>

#include "backend/cuda/driver.h"
#include "base/str_cat.h"

namespace sluice::cuda {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= 64);

Result<TensorMap> MapBytes(const void* data, int64_t rows, int64_t columns, int64_t row_bytes,
                           int box_rows) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t box[] = {128, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  CUtensorMap made;
  SLUICE_RETURN_IF_ERROR(
      Check(TheDriver().cuTensorMapEncodeTiled(
                &made, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(data), sizes, strides,
                box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            StrCat("describing ", rows, " rows of ", columns, " bytes")));
  TensorMap map;
  std::memcpy(map.words, &made, sizeof map.words);
  return map;
}

}  // namespace sluice::cuda
