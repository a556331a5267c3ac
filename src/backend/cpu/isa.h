// Instruction sets of this CPU. Detection asks CPUID and, by XGETBV, whether the operating system
// saves the registers. Plain values; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::cpu {

// Levels that kernels are compiled for; each includes the ones before it.
enum class Isa : uint8_t {
  kRef,     // what the compiler emits by default (x86-64: SSE2)
  kAvx2,    // AVX2, FMA, F16C
  kAvx512,  // AVX-512 F, BW, DQ, VL, VNNI
  kAmx,     // AMX tile, int8, bf16, AVX-512 BF16; the process has the permission to use tiles
};

// "ref", "avx2", "avx512", "amx": the names of DeviceFacts::architecture.
std::string_view Name(Isa isa);
// The level that a DeviceFacts::architecture names; kRef for a name that is none of the four.
Isa IsaOf(std::string_view architecture);

struct CpuFacts {
  std::string brand;                      // "Intel(R) Xeon(R) Platinum 8481C"; "unknown CPU"
  Isa best = Isa::kRef;                   // highest level that this process can run
  std::vector<std::string> capabilities;  // every set found, in a fixed order: "avx2", "fma", ...
  size_t cache_bytes = 0;                 // last level, as sysfs tells it; 0: unknown
};

// Asks the CPU. Requests the permission for AMX tiles from the kernel where they exist (a process
// may do so any number of times).
CpuFacts DetectCpu();

// The level to use: `wanted`, or the best when it is empty or "auto". An unknown name and a level
// that this CPU lacks are errors (kInvalidArgument, kUnimplemented) that list what can be used.
Result<Isa> ChooseIsa(std::string_view wanted, const CpuFacts& cpu);

}  // namespace sluice::cpu
