// Loads, asynchronous copies and matrix instructions that kernels share (sm_80 and later).
//
// A warp's product of m16n8k16: lane = 4 * g + t. A (16 rows) is four registers of two elements:
// rows g and g + 8, columns 2t, 2t + 1 and 2t + 8, 2t + 9. B (8 columns) is two: column g, rows
// as A's columns. C is four floats: row g, columns 2t and 2t + 1, then row g + 8. The order of the
// sixteen along k is the caller's, as long as A and B agree.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace sluice::cuda {

using Bf16 = __nv_bfloat16;
using F16 = __half;

// 16 bytes that are read once: not kept in the first-level cache.
__device__ __forceinline__ uint4 LoadOnce(const void* from) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
}

__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies kBytes (4, 8 or 16) to shared memory, or zeros where `take` is false: `from` is then not
// read.
template <int kBytes>
__device__ void CopyAsync(uint32_t to, const void* from, bool take) {
  const int bytes = take ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
  }
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void LoadMatrices(uint32_t address, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
__device__ inline void LoadMatricesTransposed(uint32_t address, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
// The same into shared memory (sm_90 and later).
__device__ inline void StoreMatricesTransposed(uint32_t address, const uint32_t (&in)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3])
      : "memory");
}
__device__ inline uint4 LoadShared(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ inline void StoreShared(uint32_t address, const uint4& v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

// sum[16 x 8] += a[16 x 16] * b[16 x 8], F32 sums.
template <class T>
__device__ void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ inline void MultiplyAdd<__nv_bfloat16>(float (&sum)[4], const uint32_t (&a)[4],
                                                  uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void MultiplyAdd<__half>(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                           uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers in a register, the first in the low half.
template <class T>
__device__ uint32_t Pack(float low, float high);
template <>
__device__ inline uint32_t Pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
__device__ inline uint32_t Pack<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

}  // namespace sluice::cuda
