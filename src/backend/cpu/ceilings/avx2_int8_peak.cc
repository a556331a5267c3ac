#include "backend/cpu/ceilings/peak_kernel.h"

namespace sluice::cpu {
namespace {

// Three instructions where VNNI has one.
void Run(int64_t rounds, const PeakOperands& operands) {
  SLUICE_DOT_LOOP(rounds, operands.int8[0], operands.int8[1], "y", SLUICE_YMM_SUMS,
                  "vpcmpeqw %%ymm3, %%ymm3, %%ymm3\n\tvpabsw %%ymm3, %%ymm3\n\t",
                  "vpmaddubsw %%ymm1, %%ymm0, %%ymm2\n\tvpmaddwd %%ymm3, %%ymm2, %%ymm2\n\tvpaddd "
                  "%%ymm2, %%ymm\\r, %%ymm\\r");
}

}  // namespace

const PeakKernel kAvx2Int8Peak = {"avx2_int8", "vpmaddubsw + vpmaddwd + vpaddd, 256 bits", "avx2",
                                  12 * 32, &Run};

}  // namespace sluice::cpu
