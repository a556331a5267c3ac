#include "backend/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/str_cat.h"

namespace sluice::cpu {

namespace {

constexpr std::string_view kNames[] = {"ref", "avx2", "avx512", "amx"};

struct Leaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Leaf Cpuid(uint32_t leaf, uint32_t subleaf) {
  Leaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

// The register states that the operating system saves; 0 without XGETBV.
uint64_t SavedStates(const Leaf& one) {
  if ((one.c >> 27 & 1) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

constexpr uint64_t kYmmStates = 0x6;       // XMM, YMM
constexpr uint64_t kZmmStates = 0xe6;      // and opmask, ZMM0-15 high halves, ZMM16-31
constexpr uint64_t kTileStates = 0x60000;  // tile configuration, tile data

// Linux gives the tile data state only to processes that ask for it.
bool RequestTiles() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

std::string Brand() {
  char text[49] = {};
  if (Cpuid(0x80000000u, 0).a < 0x80000004u) return "unknown CPU";
  for (uint32_t i = 0; i < 3; ++i) {
    const Leaf leaf = Cpuid(0x80000002u + i, 0);
    std::memcpy(text + 16 * i, &leaf, sizeof leaf);
  }
  std::string brand(text);
  const size_t begin = brand.find_first_not_of(' ');
  if (begin == std::string::npos) return "unknown CPU";
  return brand.substr(begin, brand.find_last_not_of(' ') - begin + 1);
}

// sysfs says "32768K"; the highest index is the last level.
size_t LastLevelCacheBytes() {
  size_t bytes = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file(StrCat("/sys/devices/system/cpu/cpu0/cache/index", index, "/size"));
    size_t kibibytes = 0;
    if (!(file >> kibibytes)) break;
    bytes = std::max(bytes, kibibytes << 10);
  }
  return bytes;
}

}  // namespace

std::string_view Name(Isa isa) { return kNames[static_cast<int>(isa)]; }

Isa IsaOf(std::string_view architecture) {
  for (int i = 0; i < 4; ++i) {
    if (architecture == kNames[i]) return static_cast<Isa>(i);
  }
  return Isa::kRef;
}

CpuFacts DetectCpu() {
  const Leaf one = Cpuid(1, 0), seven = Cpuid(7, 0), seven1 = Cpuid(7, 1);
  const uint64_t states = SavedStates(one);
  const bool ymm = (states & kYmmStates) == kYmmStates;
  const bool zmm = (states & kZmmStates) == kZmmStates;
  const bool amx_tile = (seven.d >> 24 & 1) != 0;
  const bool tiles = amx_tile && (states & kTileStates) == kTileStates && RequestTiles();

  struct Feature {
    std::string_view name;
    bool present;
  };
  const Feature features[] = {
      {"avx2", ymm && (seven.b >> 5 & 1)},
      {"fma", ymm && (one.c >> 12 & 1)},
      {"f16c", ymm && (one.c >> 29 & 1)},
      {"avx_vnni", ymm && (seven1.a >> 4 & 1)},
      {"avx512f", zmm && (seven.b >> 16 & 1)},
      {"avx512bw", zmm && (seven.b >> 30 & 1)},
      {"avx512dq", zmm && (seven.b >> 17 & 1)},
      {"avx512vl", zmm && (seven.b >> 31 & 1)},
      {"avx512_vnni", zmm && (seven.c >> 11 & 1)},
      {"avx512_vbmi", zmm && (seven.c >> 1 & 1)},
      {"avx512_bf16", zmm && (seven1.a >> 5 & 1)},
      {"avx512_fp16", zmm && (seven.d >> 23 & 1)},
      {"amx_tile", tiles},
      {"amx_int8", tiles && (seven.d >> 25 & 1)},
      {"amx_bf16", tiles && (seven.d >> 22 & 1)},
  };
  CpuFacts cpu;
  cpu.brand = Brand();
  cpu.cache_bytes = LastLevelCacheBytes();
  for (const Feature& feature : features) {
    if (feature.present) cpu.capabilities.emplace_back(feature.name);
  }
  auto has = [&](std::initializer_list<std::string_view> names) {
    return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
      return std::find(cpu.capabilities.begin(), cpu.capabilities.end(), name) !=
             cpu.capabilities.end();
    });
  };
  if (has({"avx2", "fma", "f16c"})) {
    cpu.best = Isa::kAvx2;
    if (has({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"})) {
      cpu.best = Isa::kAvx512;
      if (has({"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16"})) cpu.best = Isa::kAmx;
    }
  }
  return cpu;
}

Result<Isa> ChooseIsa(std::string_view wanted, const CpuFacts& cpu) {
  if (wanted.empty() || wanted == "auto") return cpu.best;
  std::string usable;
  for (int i = 0; i <= static_cast<int>(cpu.best); ++i) {
    usable += StrCat(i == 0 ? "" : ", ", kNames[i]);
  }
  for (int i = 0; i < 4; ++i) {
    if (wanted != kNames[i]) continue;
    if (i <= static_cast<int>(cpu.best)) return static_cast<Isa>(i);
    return Status(StatusCode::kDevice, StrCat("this CPU (", cpu.brand, ") cannot run the ", wanted,
                                              " kernels; use one of: ", usable));
  }
  return InvalidArgument(
      StrCat("unknown instruction set '", wanted, "'; use auto or one of: ", usable), "isa");
}

}  // namespace sluice::cpu
