#include <immintrin.h>

#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

constexpr int kSums = 10;

// Three instructions where VNNI has one.
void Run(int64_t rounds, const PeakOperands& operands) {
  const __m256i ones = _mm256_set1_epi16(1);
  RepeatDot<kSums>(rounds, _mm256_load_si256(reinterpret_cast<const __m256i*>(operands.int8[0])),
                   _mm256_load_si256(reinterpret_cast<const __m256i*>(operands.int8[1])),
                   [&ones](__m256i& sum, const __m256i& a, const __m256i& b) {
                     __m256i pairs;
                     asm volatile(
                         "vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
                         : "+x"(sum), "=&x"(pairs)
                         : "x"(a), "x"(b), "x"(ones));
                   });
}

}  // namespace

const PeakKernel kAvx2Int8Peak = {"avx2_int8", "vpmaddubsw + vpmaddwd + vpaddd, 256 bits", "avx2",
                                  kSums * 32, &Run};

}  // namespace sluice::cpu
