// What the kernels that move rows by number are given. Shared by host and device; strides in
// elements of the activation type, or in units.
#pragma once

#include <cstdint>

namespace sluice::cuda {

struct EmbeddingParams {
  const int32_t* ids;
  const uint8_t* table;
  void* out;
  int64_t row_bytes;  // of the table
  int64_t out_stride;
  int64_t vocab, hidden;
  uint32_t format;  // DType of the table
  float scale;
  int32_t add;           // to what is there
  int32_t first_beyond;  // ids from `vocab` on have the first row
};

struct GatherRowsParams {
  const uint8_t* x;
  const int32_t* rows;
  uint8_t* out;
  int64_t x_stride, out_stride;  // bytes
  int64_t tokens;                // of x
  int64_t row_units;
  uint32_t unit;  // 2, 4 or 16 bytes
};

struct ResolveTokensParams {
  int32_t* ids;
  const int32_t* previous;
  int64_t tokens, rows;
};

inline constexpr unsigned kEmbeddingThreads = 128;

}  // namespace sluice::cuda
