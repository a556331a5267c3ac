// The loop of peaks over vector registers, in asm from end to end: compilers keep an array of sums
// in memory as soon as one of them is an operand of asm. For files compiled for an instruction set.
#pragma once

#include "backend/cpu/ceilings/kernels.h"

// Registers 0 and 1 hold the operands, 2 and 3 are for temporaries and constants, and the sums in
// `registers` (numbers with commas) do not wait for one another: they are more than the latency
// times the throughput of any dot product. `dot` says what is done to the sum \\r; `set_up` comes
// before the loop.
#define SLUICE_DOT_LOOP(rounds, a, b, width, registers, set_up, dot, ...)                        \
  asm volatile("vmovups (%1), %%" width "mm0\n\tvmovups (%2), %%" width "mm1\n\t" set_up         \
               ".irp r," registers "\n\tvmovups %%" width "mm0, %%" width                        \
               "mm\\r\n\t.endr\n"                                                                \
               "1:\n\t.irp r," registers "\n\t" dot                                              \
               "\n\t.endr\n\t"                                                                   \
               "dec %0\n\tjnz 1b\n\tvzeroupper"                                                  \
               : "+r"(rounds)                                                                    \
               : "r"(a), "r"(b)                                                                  \
               : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
                 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",                    \
                 "xmm15" __VA_OPT__(, ) __VA_ARGS__)

// Of AVX2: 12 sums in registers 4 to 15.
#define SLUICE_YMM_SUMS "4,5,6,7,8,9,10,11,12,13,14,15"
// Of AVX-512: 16 sums in registers 16 to 31.
#define SLUICE_ZMM_SUMS "16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
#define SLUICE_ZMM_CLOBBERS                                                                 \
  "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", \
      "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"
