#include <immintrin.h>

#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

constexpr int kSums = 12;

void Run(int64_t rounds, const PeakOperands& operands) {
  RepeatDot<kSums>(rounds, _mm256_load_ps(operands.f32[0]), _mm256_load_ps(operands.f32[1]),
                   [](__m256& sum, const __m256& a, const __m256& b) {
                     asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
                   });
}

}  // namespace

const PeakKernel kAvx2F32Peak = {"avx2_f32", "vfmadd231ps, 256 bits", "fma", kSums * 8, &Run};

}  // namespace sluice::cpu
