#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

// The set that this file is compiled for does not name AVX512-BF16; the assembler knows it anyway.
void Run(int64_t rounds, const PeakOperands& operands) {
  SLUICE_DOT_LOOP(rounds, operands.bf16[0], operands.bf16[1], "z", SLUICE_ZMM_SUMS, "",
                  "vdpbf16ps %%zmm1, %%zmm0, %%zmm\\r", SLUICE_ZMM_CLOBBERS);
}

}  // namespace

const PeakKernel kAvx512Bf16Peak = {"avx512_bf16", "vdpbf16ps, 512 bits", "avx512_bf16", 16 * 32,
                                    &Run};

}  // namespace sluice::cpu
