// The passes over a row that sampling is made of, for each instruction set: plain functions over
// `n` floats. All give the same results to the bit. None reads or writes past its ranges.
#pragma once

#include <cstdint>

namespace sluice::cpu {

// The granularity of SamplingKernels::scan's maxima.
inline constexpr int64_t kSamplingChunk = 64;

struct LogitScan {
  float max = 0.0f;  // NaN ignored; -inf where there is nothing else
  bool bad = false;  // a NaN or +inf
};

// The weights (ops/sampling_rules.h) of the logits that are kept: above `cut`, or equal to it and
// before `ties_end`, and with an x of at least `floor`. All others weigh 0.
struct WeightCall {
  const float* logits = nullptr;
  int64_t n = 0;
  float max = 0.0f, scale = 1.0f, floor = 0.0f;
  double grid = 0.0;
  float cut = 0.0f;
  int64_t ties_end = 0;
};

struct SamplingKernels {
  // maxima: [ceil(n / kSamplingChunk)], those of the row's chunks.
  LogitScan (*scan)(const float* x, int64_t n, float* maxima);
  // Just after the nth value (from 1) that equals `value`; 0 if there are fewer.
  int64_t (*after_equal)(const float* x, int64_t n, float value, int64_t nth);
  int64_t (*count_at_least)(const float* x, int64_t n, float bound);
  int64_t (*count_above)(const float* x, int64_t n, float bound);
  // Copies the values >= bound (or < bound) in their order and returns how many; `out` has room for
  // n and may be x. REQUIRES of the second: no NaN.
  int64_t (*take_at_least)(const float* x, int64_t n, float bound, float* out);
  int64_t (*take_below)(const float* x, int64_t n, float bound, float* out);
  // Both 0 < n. NaN ignored.
  void (*range)(const float* x, int64_t n, float* min, float* max);
  // Ascending ids that are kept by the cut alone, at most `limit`; returns how many.
  int64_t (*kept_ids)(const float* x, int64_t n, float cut, int64_t ties_end, int32_t* ids,
                      int64_t limit);
  // out: x where the bit of `words` is set, else -inf. It may be x.
  void (*copy_allowed)(const float* x, const uint32_t* words, int64_t n, float* out);
  double (*total)(const WeightCall& call);
  void (*weights)(const WeightCall& call, double* out);  // [n]
};

extern const SamplingKernels kAvx2SamplingKernels, kAvx512SamplingKernels;

}  // namespace sluice::cpu
