#include "backend/cuda/tensor_map.h"

#include <cstring>

#include "backend/cuda/driver.h"
#include "backend/cuda/narrow_map.h"
#include "base/str_cat.h"

namespace sluice::cuda {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= 64);

template <size_t kDims>
struct Boxes {
  CUtensorMapDataType type;
  std::array<cuuint64_t, kDims> dims;
  std::array<cuuint64_t, kDims - 1> strides;
  std::array<cuuint32_t, kDims> box;
};

template <size_t kDims>
Result<TensorMap> Encode(const void* data, const Boxes<kDims>& boxes, const std::string& what,
                         CUtensorMapL2promotion fetched) {
  std::array<cuuint32_t, kDims> steps;
  steps.fill(1);
  CUtensorMap made;
  SLUICE_RETURN_IF_ERROR(
      Check(TheDriver().cuTensorMapEncodeTiled(
                &made, boxes.type, kDims, const_cast<void*>(data), boxes.dims.data(),
                boxes.strides.data(), boxes.box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, fetched, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            what));
  TensorMap map;
  std::memcpy(map.words, &made, sizeof map.words);
  return map;
}

Result<TensorMap> EncodeTensor(const BoxedTensor& tensor, CUtensorMapL2promotion fetched) {
  const auto& [data, number_bytes, dims, strides, box] = tensor;
  return Encode<4>(
      data,
      {.type = number_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16,
       .dims = {dims[0], dims[1], dims[2], dims[3]},
       .strides = {strides[0], strides[1], strides[2]},
       .box = {box[0], box[1], box[2], box[3]}},
      StrCat("describing ", dims[3], " pages of ", dims[2], " heads, ", dims[1], " rows of ",
             dims[0], " numbers"),
      fetched);
}

}  // namespace

Result<TensorMap> MapBytes(const void* data, int64_t rows, int64_t columns, int64_t row_bytes,
                           int box_rows) {
  return Encode<2>(data,
                   {.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                    .dims = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)},
                    .strides = {static_cast<cuuint64_t>(row_bytes)},
                    .box = {128, static_cast<cuuint32_t>(box_rows)}},
                   StrCat("describing ", rows, " rows of ", columns, " bytes"),
                   CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

Result<TensorMap> MapBoxes(const BoxedTensor& tensor) {
  return EncodeTensor(tensor, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

Result<TensorMap> MapNarrowBoxes(const BoxedTensor& tensor) {
  return EncodeTensor(tensor, CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

}  // namespace sluice::cuda
