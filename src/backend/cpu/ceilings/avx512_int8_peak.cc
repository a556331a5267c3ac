#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

void Run(int64_t rounds, const PeakOperands& operands) {
  SLUICE_DOT_LOOP(rounds, operands.int8[0], operands.int8[1], "z", SLUICE_ZMM_SUMS, "",
                  "vpdpbusd %%zmm1, %%zmm0, %%zmm\\r", SLUICE_ZMM_CLOBBERS);
}

}  // namespace

const PeakKernel kAvx512Int8Peak = {"avx512_int8", "vpdpbusd, 512 bits", "avx512_vnni", 16 * 64,
                                    &Run};

}  // namespace sluice::cpu
