// Positions of the k largest scores of a row, ascending: a thread block has a row. The k-th largest
// is found digit by digit; then each warp writes what a part of the row gives, behind what the
// parts before it give. Nothing depends on the order in which threads count.
#include "backend/cuda/attention/index_params.h"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

constexpr int kDigitBits = 11, kDigits = 1 << kDigitBits, kWarps = kTopKThreads / 32;
static_assert(kDigits == 2 * kTopKThreads);
constexpr unsigned kAll = 0xffffffffu;

// Grows with the score: NaN is below all, and the zeros are equal.
__device__ inline uint32_t KeyOf(float score) {
  if (isnan(score)) return 0;
  const uint32_t bits = __float_as_uint(score == 0.0f ? 0.0f : score);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

struct Shared {
  int counts[kDigits];
  int of_warps[kWarps], equal_of_warps[kWarps];
  int digit, left;
};

// The k-th largest key as far as it is known, and of keys that agree with it, how many belong to
// the k largest.
struct Border {
  uint32_t key;
  int left;
};

// Finds the digit at `shift`, of `bits`, of the border. All threads call together.
__device__ Border NextDigit(const float* scores, int length, const Border& border, int shift,
                            int bits, Shared& shared) {
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  shared.counts[thread] = shared.counts[thread + kTopKThreads] = 0;
  __syncthreads();
  for (int p = thread; p < length; p += kTopKThreads) {
    const uint32_t key = KeyOf(scores[p]);
    if (uint64_t{key ^ border.key} >> (shift + bits) == 0)
      atomicAdd(&shared.counts[key >> shift & ((1u << bits) - 1)], 1);
  }
  __syncthreads();
  // Each thread has two digits, the first thread the highest.
  const int high = kDigits - 1 - 2 * thread;
  const int of_high = shared.counts[high], of_both = of_high + shared.counts[high - 1];
  int sum = of_both;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int below = __shfl_up_sync(kAll, sum, step);
    if (lane >= step) sum += below;
  }
  if (lane == 31) shared.of_warps[warp] = sum;
  __syncthreads();
  int before = sum - of_both;
  for (int w = 0; w < warp; ++w) before += shared.of_warps[w];
  if (before < border.left && before + of_both >= border.left) {
    const bool is_high = before + of_high >= border.left;
    shared.digit = is_high ? high : high - 1;
    shared.left = border.left - before - (is_high ? 0 : of_high);
  }
  __syncthreads();
  const Border next = {border.key | static_cast<uint32_t>(shared.digit) << shift, shared.left};
  __syncthreads();
  return next;
}

// Calls body(position, key) for the positions [begin, end), as many as a warp has lanes at a time
// and in order; behind the end the key is below all, and no border.
template <class Body>
__device__ void ForKeys(const float* scores, int begin, int end, const Body& body) {
  constexpr int kAhead = 4;
  for (int first = begin; first < end; first += 32 * kAhead) {
    const int base = first + static_cast<int>(threadIdx.x % 32);
    float ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) ahead[i] = base + 32 * i < end ? scores[base + 32 * i] : 0.0f;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) body(base + 32 * i, KeyOf(ahead[i]));
  }
}

__device__ void Take(const float* scores, int length, const Border& border, int32_t* out,
                     Shared& shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int part = (length + kWarps - 1) / kWarps;
  const int begin = min(warp * part, length), end = min(begin + part, length);
  int above = 0, equal = 0;
  ForKeys(scores, begin, end, [&](int p, uint32_t key) {
    above += __popc(__ballot_sync(kAll, p < end && key > border.key));
    equal += __popc(__ballot_sync(kAll, p < end && key == border.key));
  });
  if (lane == 0) {
    shared.of_warps[warp] = above;
    shared.equal_of_warps[warp] = equal;
  }
  __syncthreads();
  int to = 0, equals = 0;
  for (int w = 0; w < warp; ++w) {
    to += shared.of_warps[w];
    equals += shared.equal_of_warps[w];
  }
  to += min(equals, border.left);
  const unsigned below = (1u << lane) - 1;
  ForKeys(scores, begin, end, [&](int p, uint32_t key) {
    const bool is_equal = p < end && key == border.key;
    const unsigned all_equal = __ballot_sync(kAll, is_equal);
    const bool takes = (p < end && key > border.key) ||
                       (is_equal && equals + __popc(all_equal & below) < border.left);
    const unsigned taken = __ballot_sync(kAll, takes);
    if (takes) out[to + __popc(taken & below)] = p;
    to += __popc(taken);
    equals += __popc(all_equal);
  });
}

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(1024)
    any_f32_top_k(const __grid_constant__ sluice::cuda::TopKParams p) {
  using namespace sluice::cuda;
  __shared__ Shared shared;
  WaitForInputs();
  const int64_t row = blockIdx.x;
  const int length = max(0, min(p.lengths[row], p.width));
  const float* const scores = p.scores + row * p.scores_stride;
  int32_t* const out = p.positions + row * p.positions_stride;
  if (length <= p.k) {
    for (int i = threadIdx.x; i < p.k; i += kTopKThreads) out[i] = i < length ? i : -1;
    return;
  }
  Border border = {0, p.k};
  border = NextDigit(scores, length, border, 21, 11, shared);
  border = NextDigit(scores, length, border, 10, 11, shared);
  border = NextDigit(scores, length, border, 0, 10, shared);
  Take(scores, length, border, out, shared);
}
