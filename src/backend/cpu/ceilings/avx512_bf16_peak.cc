#include <immintrin.h>

#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

constexpr int kSums = 16;

// By asm alone: the set that this file is compiled for does not name AVX512-BF16.
void Run(int64_t rounds, const PeakOperands& operands) {
  RepeatDot<kSums>(rounds, _mm512_load_si512(operands.bf16[0]), _mm512_load_si512(operands.bf16[1]),
                   [](__m512i& sum, const __m512i& a, const __m512i& b) {
                     asm volatile("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
                   });
}

}  // namespace

const PeakKernel kAvx512Bf16Peak = {"avx512_bf16", "vdpbf16ps, 512 bits", "avx512_bf16", kSums * 32,
                                    &Run};

}  // namespace sluice::cpu
