// What place_tokens' kernel is given. Shared by host and device; strides in numbers.
#pragma once

#include <cstdint>

namespace sluice::cuda {

struct PlaceTokensParams {
  const int32_t* query_start;
  const int32_t* first;
  const int32_t* unsure;
  const int32_t* slots;
  const int32_t* lengths;
  const int32_t* told_start;
  const int32_t* told_first;
  const int32_t* told;
  const int32_t*
      paths;  // [tokens], each `path_numbers` numbers, as ops/attention.h has it; or null
  int32_t* tables;
  int32_t* positions;
  int32_t* context;
  int32_t* kv_slots;
  int32_t* block_table;
  int64_t tables_stride, block_table_stride, path_stride;
  int64_t tokens;  // padding included
  int32_t sequences, slot_count, tables_width, block_table_width;
  int32_t block_tokens, cache_block_tokens, earlier;
  int32_t path_numbers;
  uint32_t state;
};

// A table of 128k tokens in blocks of 16 is 8,192 ids: eight of a thread.
inline constexpr unsigned kPlaceTokensThreads = 1024;

}  // namespace sluice::cuda
