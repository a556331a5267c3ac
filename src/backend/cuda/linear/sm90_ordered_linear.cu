// Products of up to 8 tokens whose sums run over k in one ascending chain of matrix instructions,
// 16 elements each. cuBLASLt's kernels that split nothing add up in the same way, so an output has
// the same bits from both, and few tokens can be left to this one, which reads W faster. That this
// is so is seen on the device before it is relied on (cublaslt.cc).
//
// A thread block has 16 rows of W for each of its two warps and all tokens. W and x come through a
// ring of stages in shared memory, 64 elements of k each. The ring is filled with W before the wait
// for x, since no kernel writes weights, and a warp reads its factors of the next stage while it
// multiplies those of this one.
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {
namespace {

template <class Factor>
struct OrderedLinear {
  static constexpr int kParts = kOrderedStep / 16;  // products with 16 elements of k, of a stage
  static constexpr int kRowBytes = kOrderedStep * 2, kChunks = kRowBytes / 16;
  // A thread's part of a stage: the same chunk of every eighth row.
  static constexpr int kRowsApart = kOrderedThreads / kChunks;
  static constexpr int kWeightBytes = kOrderedRows * kRowBytes;
  static constexpr int kStageBytes = kWeightBytes + kRowsApart * kRowBytes;
  static_assert(kOrderedRows == 16 * (kOrderedThreads / 32));
  static_assert(kRowsApart == kOrderedTokensMax);  // so a thread has one part of x
  static_assert(kStageBytes * kOrderedStages == kOrderedSharedBytes);

  // What a warp multiplies of a stage.
  struct Factors {
    uint32_t w[kParts][4];
    uint32_t x[kParts / 2][4];
  };

  const LinearParams& p;
  const uint32_t ring;
  const int row, warp, lane, steps;
  // Where the thread's parts of W and x begin; rows behind the last repeat it.
  const uint8_t* weight[kOrderedRows / kRowsApart];
  const uint8_t* token;
  float sum[4] = {};

  __device__ OrderedLinear(const LinearParams& params, const void* memory)
      : p(params),
        ring(SharedAddress(memory)),
        row(blockIdx.x * kOrderedRows),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32),
        steps(params.k / kOrderedStep) {
    const int first = threadIdx.x / kChunks, at = threadIdx.x % kChunks * 16;
#pragma unroll
    for (int i = 0; i < kOrderedRows / kRowsApart; ++i) {
      weight[i] = static_cast<const uint8_t*>(p.weight) +
                  min(row + first + i * kRowsApart, p.n - 1) * p.row_bytes + at;
    }
    token = static_cast<const uint8_t*>(p.x) + int64_t{min(first, p.m - 1)} * p.x_stride * 16 + at;
  }

  // Where 16 bytes of a stage's row lie: eight neighbouring rows in different banks.
  static __device__ __forceinline__ uint32_t Place(int r, int chunk) {
    return static_cast<uint32_t>(r * kRowBytes + ((chunk ^ (r & 7)) * 16));
  }
  __device__ __forceinline__ uint32_t Stage(int step) const {
    return ring + static_cast<uint32_t>(step % kOrderedStages * kStageBytes);
  }

  __device__ __forceinline__ void FetchWeight(int step) const {
    if (step >= steps) return;
    const int first = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
#pragma unroll
    for (int i = 0; i < kOrderedRows / kRowsApart; ++i) {
      CopyAsync<16>(Stage(step) + Place(first + i * kRowsApart, chunk),
                    weight[i] + step * kRowBytes, true);
    }
  }
  __device__ __forceinline__ void FetchTokens(int step) const {
    if (step >= steps) return;
    const int first = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
    CopyAsync<16>(Stage(step) + kWeightBytes + Place(first, chunk), token + step * kRowBytes,
                  first < p.m);
  }

  __device__ __forceinline__ void Read(int step, Factors& factors) const {
    if (step >= steps) return;
    const uint32_t stage = Stage(step), x = stage + kWeightBytes;
    const int r = warp * 16 + lane % 16;
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      LoadMatrices(stage + Place(r, 2 * part + lane / 16), factors.w[part]);
#pragma unroll
    for (int two = 0; two < kParts / 2; ++two)
      LoadMatrices(x + Place(lane % 8, 4 * two + lane / 8), factors.x[two]);
  }

  __device__ __forceinline__ void Multiply(const Factors& factors) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const uint32_t* x = factors.x[part / 2] + part % 2 * 2;
      MultiplyAdd<Factor>(sum, factors.w[part], x[0], x[1]);
    }
  }

  __device__ void Run() {
    for (int step = 0; step < kOrderedStages - 1; ++step) FetchWeight(step);
    WaitForInputs();
    for (int step = 0; step < kOrderedStages - 1; ++step) {
      FetchTokens(step);
      CommitCopies();
    }
    Factors factors[2];
    WaitCopies<kOrderedStages - 2>();
    __syncthreads();
    Read(0, factors[0]);
    for (int base = 0; base < steps; base += 2) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // Into the stage before this one, which all warps have read.
        FetchWeight(base + i + kOrderedStages - 1);
        FetchTokens(base + i + kOrderedStages - 1);
        CommitCopies();
        WaitCopies<kOrderedStages - 2>();
        __syncthreads();
        Read(base + i + 1, factors[(i + 1) % 2]);
        if (base + i < steps) Multiply(factors[i]);
      }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      Finish(p, row + warp * 16 + lane / 4 + c / 2 * 8, lane % 4 * 2 + c % 2, sum[c]);
    }
  }
};

}  // namespace
}  // namespace sluice::cuda

#define SLUICE_ORDERED_LINEAR(name, Factor)                                   \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::kOrderedThreads) \
      name(const __grid_constant__ sluice::cuda::LinearParams params) {       \
    extern __shared__ uint4 shared[];                                         \
    sluice::cuda::OrderedLinear<sluice::cuda::Factor>(params, shared).Run();  \
  }
SLUICE_ORDERED_LINEAR(bf16_ordered, Bf16)
SLUICE_ORDERED_LINEAR(f16_ordered, F16)
