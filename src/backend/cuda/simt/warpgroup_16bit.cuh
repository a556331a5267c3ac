// Products of a warpgroup in 16-bit numbers (sm_90a): 64 rows of A by N columns of B, 16 along k.
// The sums lie in registers as warpgroup.cuh says. A from registers is laid out as for a warp's
// products (mma.cuh). Operands in shared memory have rows of 128 bytes in the 128-byte swizzle: the
// sixteen bytes c of row r lie at c ^ r % 8, and begin at multiples of 1024 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/simt/warpgroup.cuh"

namespace sluice::cuda {

// The operand at `address` whose rows are of 64 columns, each row one of k: the next 64 columns
// begin kColumnStride bytes behind, and 16 of k are 2048 bytes. One that has rows of k instead is a
// SwizzledOperand.
template <int kColumnStride>
__device__ __forceinline__ uint64_t ColumnsOperand(uint32_t address) {
  constexpr uint64_t kStride = kColumnStride >> 4, kMask = uint64_t{0xffff} << 16;
  return (SwizzledOperand(address) & ~kMask) | kStride << 16;
}
// The operand that begins so many times sixteen bytes behind.
__device__ __forceinline__ uint64_t Behind(uint64_t operand, int sixteens) {
  return (operand & ~uint64_t{0xffffffffu}) | (static_cast<uint32_t>(operand) + sixteens);
}

// Begin: d = A B. Add: d += A B. The compiler does not take what d had for an operand of the first:
// it would else let products wait for each other.
// A and B have rows of k in shared memory.
template <class T>
__device__ __forceinline__ void BeginRows(float (&d)[32], uint64_t a, uint64_t b);
template <class T>
__device__ __forceinline__ void AddRows(float (&d)[32], uint64_t a, uint64_t b);
// A is in registers, and B has rows of columns; N is twice the count of sums.
template <class T, int kSums>
__device__ __forceinline__ void BeginColumns(float (&d)[kSums], const uint32_t (&a)[4], uint64_t b);
template <class T, int kSums>
__device__ __forceinline__ void AddColumns(float (&d)[kSums], const uint32_t (&a)[4], uint64_t b);

// clang-format off
#define SLUICE_WARPGROUP_PRODUCTS(T, type)                                                        \
  template <>                                                                                     \
  __device__ __forceinline__ void BeginRows<T>(float (&d)[32], uint64_t a, uint64_t b) {          \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {"                          \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "             \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "            \
        "%32, %33, add, 1, 1, 0, 0;\n}"                                                           \
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),     \
          "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]),              \
          "=f"(d[13]), "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]),           \
          "=f"(d[19]), "=f"(d[20]), "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]),           \
          "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]), "=f"(d[29]), "=f"(d[30]),           \
          "=f"(d[31])                                                                             \
        : "l"(a), "l"(b));                                                                        \
  }                                                                                               \
  template <>                                                                                     \
  __device__ __forceinline__ void BeginColumns<T, 32>(float (&d)[32], const uint32_t (&a)[4],     \
                                            uint64_t b) {                                         \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {"                          \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "             \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "            \
        "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}"                                             \
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),     \
          "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]),              \
          "=f"(d[13]), "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]),           \
          "=f"(d[19]), "=f"(d[20]), "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]),           \
          "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]), "=f"(d[29]), "=f"(d[30]),           \
          "=f"(d[31])                                                                             \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }                                                                                               \
  template <>                                                                                     \
  __device__ __forceinline__ void BeginColumns<T, 48>(float (&d)[48], const uint32_t (&a)[4],     \
                                            uint64_t b) {                                         \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n96k16.f32." type "." type " {"                          \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "             \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "             \
        "%47}, "                                                                                  \
        "{%48, %49, %50, %51}, %52, add, 1, 1, 1;\n}"                                             \
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),     \
          "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]),              \
          "=f"(d[13]), "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]),           \
          "=f"(d[19]), "=f"(d[20]), "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]),           \
          "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]), "=f"(d[29]), "=f"(d[30]),           \
          "=f"(d[31]), "=f"(d[32]), "=f"(d[33]), "=f"(d[34]), "=f"(d[35]), "=f"(d[36]),           \
          "=f"(d[37]), "=f"(d[38]), "=f"(d[39]), "=f"(d[40]), "=f"(d[41]), "=f"(d[42]),           \
          "=f"(d[43]), "=f"(d[44]), "=f"(d[45]), "=f"(d[46]), "=f"(d[47])                         \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }                                                                                               \
  template <>                                                                                     \
  __device__ __forceinline__ void BeginColumns<T, 64>(float (&d)[64], const uint32_t (&a)[4],     \
                                            uint64_t b) {                                         \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {"                         \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "             \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "             \
        "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "             \
        "%62, %63}, "                                                                             \
        "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}"                                             \
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),     \
          "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]),              \
          "=f"(d[13]), "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]),           \
          "=f"(d[19]), "=f"(d[20]), "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]),           \
          "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]), "=f"(d[29]), "=f"(d[30]),           \
          "=f"(d[31]), "=f"(d[32]), "=f"(d[33]), "=f"(d[34]), "=f"(d[35]), "=f"(d[36]),           \
          "=f"(d[37]), "=f"(d[38]), "=f"(d[39]), "=f"(d[40]), "=f"(d[41]), "=f"(d[42]),           \
          "=f"(d[43]), "=f"(d[44]), "=f"(d[45]), "=f"(d[46]), "=f"(d[47]), "=f"(d[48]),           \
          "=f"(d[49]), "=f"(d[50]), "=f"(d[51]), "=f"(d[52]), "=f"(d[53]), "=f"(d[54]),           \
          "=f"(d[55]), "=f"(d[56]), "=f"(d[57]), "=f"(d[58]), "=f"(d[59]), "=f"(d[60]),           \
          "=f"(d[61]), "=f"(d[62]), "=f"(d[63])                                                   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }                                                                                               \
  template <>                                                                                     \
  __device__ __forceinline__ void AddRows<T>(float (&d)[32], uint64_t a, uint64_t b) {            \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {"                          \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "             \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "            \
        "%32, %33, add, 1, 1, 0, 0;\n}"                                                           \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),     \
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),              \
          "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),           \
          "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),           \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),           \
          "+f"(d[31])                                                                             \
        : "l"(a), "l"(b));                                                                        \
  }                                                                                               \
  template <>                                                                                     \
  __device__ __forceinline__ void AddColumns<T, 32>(float (&d)[32], const uint32_t (&a)[4],       \
                                            uint64_t b) {                                         \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {"                          \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "             \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "            \
        "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}"                                             \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),     \
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),              \
          "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),           \
          "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),           \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),           \
          "+f"(d[31])                                                                             \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }                                                                                               \
  template <>                                                                                     \
  __device__ __forceinline__ void AddColumns<T, 48>(float (&d)[48], const uint32_t (&a)[4],       \
                                            uint64_t b) {                                         \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n96k16.f32." type "." type " {"                          \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "             \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "             \
        "%47}, "                                                                                  \
        "{%48, %49, %50, %51}, %52, add, 1, 1, 1;\n}"                                             \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),     \
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),              \
          "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),           \
          "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),           \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),           \
          "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),           \
          "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),           \
          "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])                         \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }                                                                                               \
  template <>                                                                                     \
  __device__ __forceinline__ void AddColumns<T, 64>(float (&d)[64], const uint32_t (&a)[4],       \
                                            uint64_t b) {                                         \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"                                            \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {"                         \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "             \
        "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "             \
        "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "             \
        "%62, %63}, "                                                                             \
        "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}"                                             \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),     \
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]),              \
          "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),           \
          "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),           \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),           \
          "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),           \
          "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),           \
          "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),           \
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),           \
          "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]),           \
          "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                                                   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }
// clang-format on

SLUICE_WARPGROUP_PRODUCTS(__nv_bfloat16, "bf16")
SLUICE_WARPGROUP_PRODUCTS(__half, "f16")
#undef SLUICE_WARPGROUP_PRODUCTS

}  // namespace sluice::cuda
