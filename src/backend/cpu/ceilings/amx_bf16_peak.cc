#include "backend/cpu/ceilings/amx_tiles.h"

namespace sluice::cpu {
namespace {

void Run(int64_t rounds, const PeakOperands& operands) {
  BeginTiles(operands.bf16[0], operands.bf16[1]);
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile(
        "tdpbf16ps %tmm7, %tmm6, %tmm0\n\ttdpbf16ps %tmm7, %tmm6, %tmm1\n\t"
        "tdpbf16ps %tmm7, %tmm6, %tmm2\n\ttdpbf16ps %tmm7, %tmm6, %tmm3\n\t"
        "tdpbf16ps %tmm7, %tmm6, %tmm4\n\ttdpbf16ps %tmm7, %tmm6, %tmm5");
  }
  EndTiles();
}

}  // namespace

const PeakKernel kAmxBf16Peak = {"amx_bf16", "tdpbf16ps, tiles of 16 x 64 bytes", "amx_bf16",
                                 int64_t{6} * 16 * 16 * 32, &Run};

}  // namespace sluice::cpu
