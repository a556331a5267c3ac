// Many tokens of x in BF16 and W in block formats, and the copy of x that these products read.
#include "backend/cuda/linear/block_wgmma.cuh"
#include "backend/cuda/linear/kernel_list.h"

LINEAR_BLOCK_FORMATS(SLUICE_BLOCK_WGMMA)
LINEAR_WORD_FORMATS(SLUICE_BLOCK_WGMMA)
LINEAR_BYTE_FORMATS(SLUICE_BLOCK_WGMMA)

// A warp has eight tokens and 32 elements of k at a time. Sums are made by the matrix units, as the
// other kernels of block formats make them.
extern "C" __global__ void __launch_bounds__(256)
    stage_block_tokens(const __grid_constant__ sluice::cuda::BlockTokensParams p) {
  using namespace sluice::cuda;
  WaitForInputs();
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int first = static_cast<int>(blockIdx.x) * 8, token = min(first + g, p.m - 1);
  const uint32_t ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
  const int warps = static_cast<int>(gridDim.y * blockDim.x) / 32;
  for (int w = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) / 32; w < p.windows;
       w += warps) {
    const bool has = 32 * w < p.k;
    const auto* const from = reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(p.x) +
                                                            token * p.x_stride + 32 * w) +
                             t;
    const uint2 four[2] = {has ? from[0] : uint2{}, has ? from[4] : uint2{}};
    auto* const to = reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(p.out) +
                                                 static_cast<int64_t>(token) * p.k + 32 * w) +
                     t;
    if (has && first + g < p.m) {
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        to[8 * s] = four[s].x;
        to[8 * s + 4] = four[s].y;
      }
    }
    if (p.sums == nullptr) continue;
    float sum[2][4] = {};
    MultiplyAdd<Bf16>(sum[0], ones, four[0].x, four[0].y);
    if (p.sub == 32) {
      MultiplyAdd<Bf16>(sum[0], ones, four[1].x, four[1].y);
    } else {
      MultiplyAdd<Bf16>(sum[1], ones, four[1].x, four[1].y);
    }
    if (g != 0) continue;
    float* const sums = p.sums + static_cast<int64_t>(32 / p.sub * w) * p.sums_stride + first;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      sums[2 * t + c] = sum[0][c];
      if (p.sub != 32) sums[p.sums_stride + 2 * t + c] = sum[1][c];
    }
  }
}
