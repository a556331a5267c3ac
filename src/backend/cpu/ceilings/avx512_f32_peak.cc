#include <immintrin.h>

#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

constexpr int kSums = 16;

void Run(int64_t rounds, const PeakOperands& operands) {
  RepeatDot<kSums>(rounds, _mm512_load_ps(operands.f32[0]), _mm512_load_ps(operands.f32[1]),
                   [](__m512& sum, const __m512& a, const __m512& b) {
                     asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
                   });
}

}  // namespace

const PeakKernel kAvx512F32Peak = {"avx512_f32", "vfmadd231ps, 512 bits", "avx512f", kSums * 16,
                                   &Run};

}  // namespace sluice::cpu
