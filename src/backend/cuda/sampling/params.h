// What the sampling kernels take, shared by host and device. Pointers are device memory.
#pragma once

#include <cstdint>

#include "ops/sample_row.h"

namespace sluice::cuda {

struct SampleParams {
  const float* logits;
  const std::byte* rows;
  const std::byte* edits;
  const uint32_t* counts;
  const uint32_t* masks;
  std::byte* outputs;
  int32_t* top_ids;
  float* top_logprobs;
  float* distributions;
  const float* guesses;
  const int32_t* guess_of;  // null: ids are the same
  int64_t vocab;
  int64_t guess_vocab;
  int64_t logits_stride, counts_stride, mask_stride, top_ids_stride, top_logprobs_stride,
      distribution_stride, guesses_stride;
  int64_t rows_stride, edits_stride, outputs_stride;                              // bytes
  int32_t edit_count, counts_count, mask_count, distribution_count, guess_count;  // in the arrays
  int32_t top_max;
  int32_t slice;  // logits that a thread block keeps
};

struct SetCountsParams {
  const int32_t* rows;
  const int32_t* words;
  uint32_t* counts;
  int64_t rows_stride, words_stride, counts_stride;
  int64_t vocab;
  int64_t word_count, counts_count;  // what the arrays have
};

// What is known of the sequences, by slot.
struct KnownParams {
  int32_t* lengths;
  int32_t* tokens;
  int64_t tokens_stride;
  int32_t slots, token_count;  // of a slot
};

struct ResolveRowsParams {
  std::byte* rows;
  int64_t rows_stride;  // bytes
  int64_t row_count;
  KnownParams known;
};

struct KeepDrawnParams {
  const std::byte* rows;
  std::byte* outputs;
  uint32_t* counts;
  int64_t rows_stride, outputs_stride;  // bytes
  int64_t counts_stride;
  int64_t row_count, vocab, counts_count;
  double taken;  // share of drafts that count as drawn
  KnownParams known;
};

inline constexpr unsigned kSetCountsThreads = 1024, kRowThreads = 128;

// A row belongs to a cluster of thread blocks; each keeps a slice of its logits in shared memory.
inline constexpr int kSampleCluster = 8, kSampleThreads = 512;
inline constexpr int kSampleBins = 2048;
inline constexpr int kSampleTopMax = kSampleBins;
inline constexpr int64_t kSampleFixedBytes = 2 * kSampleBins * 4 + 2048;
inline constexpr int64_t kSampleSharedMax = 227 * 1024;

constexpr int64_t SampleSlice(int64_t vocab) {
  const int64_t whole = int64_t{kSampleCluster} * kSampleThreads;
  return (vocab + whole - 1) / whole * kSampleThreads;
}
constexpr int64_t SampleSharedBytes(int64_t vocab) {
  return kSampleFixedBytes + SampleSlice(vocab) * 4;
}

}  // namespace sluice::cuda
