#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

void Run(int64_t rounds, const PeakOperands& operands) {
  SLUICE_DOT_LOOP(rounds, operands.f32[0], operands.f32[1], "y", SLUICE_YMM_SUMS, "",
                  "vfmadd231ps %%ymm1, %%ymm0, %%ymm\\r");
}

}  // namespace

const PeakKernel kAvx2F32Peak = {"avx2_f32", "vfmadd231ps, 256 bits", "fma", 12 * 8, &Run};

}  // namespace sluice::cpu
