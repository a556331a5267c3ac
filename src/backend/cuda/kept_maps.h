// Maps (tensor_map.h) that a binding keeps for its next call, which reads the same weight: they are
// made anew only where that lies otherwise.
#pragma once

#include "backend/cuda/tensor_map.h"
#include "ops/kept.h"

namespace sluice::cuda {

// As MapBytes has it.
struct ByteMatrix {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0, row_bytes = 0;
  int box_rows = 0;
  bool operator==(const ByteMatrix&) const = default;
};

using KeptMap = ops::LastValue<ByteMatrix, TensorMap>;

// `kept`: null where nothing is kept. REQUIRES: as MapBytes.
inline Result<TensorMap> MapKept(KeptMap* kept, const ByteMatrix& matrix) {
  const auto make = [&] {
    return MapBytes(matrix.data, matrix.rows, matrix.columns, matrix.row_bytes, matrix.box_rows);
  };
  if (kept == nullptr) return make();
  SLUICE_ASSIGN_OR_RETURN(const TensorMap* const map, kept->Of(matrix, make));
  return *map;
}

}  // namespace sluice::cuda
