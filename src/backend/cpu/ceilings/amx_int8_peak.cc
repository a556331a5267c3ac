#include "backend/cpu/ceilings/amx_tiles.h"

namespace sluice::cpu {
namespace {

void Run(int64_t rounds, const PeakOperands& operands) {
  BeginTiles(operands.int8[0], operands.int8[1]);
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile(
        "tdpbssd %tmm7, %tmm6, %tmm0\n\ttdpbssd %tmm7, %tmm6, %tmm1\n\t"
        "tdpbssd %tmm7, %tmm6, %tmm2\n\ttdpbssd %tmm7, %tmm6, %tmm3\n\t"
        "tdpbssd %tmm7, %tmm6, %tmm4\n\ttdpbssd %tmm7, %tmm6, %tmm5");
  }
  EndTiles();
}

}  // namespace

const PeakKernel kAmxInt8Peak = {"amx_int8", "tdpbssd, tiles of 16 x 64 bytes", "amx_int8",
                                 int64_t{6} * 16 * 16 * 64, &Run};

}  // namespace sluice::cpu
