// What the kernels of next_tokens and keep_guesses are given. Shared by host and device; strides in
// numbers, those of outputs and rows in bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::cuda {

struct NextTokensParams {
  const int32_t* token_ids;
  const int32_t* query_start;
  const int32_t* positions;
  const int32_t* slots;
  const int32_t* next;
  const int32_t* drafting;
  const int32_t* lengths;
  const int32_t* known;
  int32_t* ids;
  int32_t* rows;
  int32_t* first;
  int64_t known_stride;
  int64_t tokens;  // padding included
  int32_t sequences, drafts, slot_count;
};

struct KeepGuessesParams {
  const std::byte* outputs;
  const int32_t* slots;
  const int32_t* target_ids;  // null: ids are the same
  int32_t* known;
  int32_t* ids;
  int32_t* first;
  std::byte* rows;  // null: they stay where they are
  int64_t outputs_stride, known_stride, rows_stride;
  int32_t number, moved, drafts, slot_count, target_id_count;
};

inline constexpr unsigned kNextTokensThreads = 128, kKeepGuessesThreads = 128;

}  // namespace sluice::cuda
