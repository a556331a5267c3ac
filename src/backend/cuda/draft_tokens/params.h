// What the kernels of next_tokens, keep_guesses, follow_trees and grow_trees are given. Shared by
// host and device; strides in numbers, those of outputs and rows in bytes.
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

struct FollowTreesParams {
  const int32_t* token_ids;
  const int32_t* query_start;
  const int32_t* positions;
  const int32_t* slots;
  const int32_t* paths;
  const int32_t* logits_rows;
  const std::byte* outputs;
  int32_t* lengths;
  int32_t* known;
  int32_t* order;
  int32_t* ids;
  int32_t* places;
  int64_t path_stride, outputs_stride, known_stride;
  int64_t tokens;  // padding included
  int32_t sequences, rows, slot_count;
};

struct GrowTreesParams {
  const std::byte* outputs;
  const int32_t* top_ids;
  const float* top_logprobs;
  const int32_t* slots;
  const int32_t* target_ids;  // null: ids are the same
  const int32_t* beams;
  const int32_t* paths;
  int32_t* nodes;
  int32_t* next_beams;
  int32_t* next_paths;
  int32_t* ids;
  int32_t* order;
  int32_t* first;
  int64_t outputs_stride, ids_stride, logprobs_stride, nodes_stride;
  int32_t drafts, slot_count, target_id_count;
  int32_t depth, begin, moved, beam_count, children;
};

inline constexpr unsigned kNextTokensThreads = 128, kKeepGuessesThreads = 128;
inline constexpr unsigned kFollowTreesThreads = 128, kGrowTreesThreads = 64;

}  // namespace sluice::cuda
