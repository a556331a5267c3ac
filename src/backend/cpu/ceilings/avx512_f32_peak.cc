#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

void Run(int64_t rounds, const PeakOperands& operands) {
  SLUICE_DOT_LOOP(rounds, operands.f32[0], operands.f32[1], "z", SLUICE_ZMM_SUMS, "",
                  "vfmadd231ps %%zmm1, %%zmm0, %%zmm\\r", SLUICE_ZMM_CLOBBERS);
}

}  // namespace

const PeakKernel kAvx512F32Peak = {"avx512_f32", "vfmadd231ps, 512 bits", "avx512f", 16 * 16, &Run};

}  // namespace sluice::cpu
