#include <immintrin.h>

#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

constexpr int kSums = 16;

void Run(int64_t rounds, const PeakOperands& operands) {
  RepeatDot<kSums>(rounds, _mm512_load_si512(operands.int8[0]), _mm512_load_si512(operands.int8[1]),
                   [](__m512i& sum, const __m512i& a, const __m512i& b) {
                     asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
                   });
}

}  // namespace

const PeakKernel kAvx512Int8Peak = {"avx512_int8", "vpdpbusd, 512 bits", "avx512_vnni", kSums * 64,
                                    &Run};

}  // namespace sluice::cpu
