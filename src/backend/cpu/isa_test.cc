#include "backend/cpu/isa.h"

#include <gmock/gmock.h>

namespace sluice::cpu {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(Isa, NamesRoundTrip) {
  for (Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) EXPECT_EQ(IsaOf(Name(isa)), isa);
  EXPECT_EQ(IsaOf("sse9"), Isa::kRef);
}

// The compiler's run-time library asks the same CPU by its own code.
TEST(Isa, DetectionAgreesWithTheCompilersLibrary) {
  const CpuFacts cpu = DetectCpu();
  EXPECT_FALSE(cpu.brand.empty());
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  EXPECT_EQ(cpu.best >= Isa::kAvx2, avx2);
  EXPECT_EQ(cpu.best >= Isa::kAvx512, avx512);
  const bool tiles = cpu.best == Isa::kAmx;
  EXPECT_EQ(tiles, testing::Value(cpu.capabilities, Contains("amx_int8")) && avx512);
}

TEST(Isa, ChoosesTheBestOrWhatIsWanted) {
  CpuFacts cpu;
  cpu.brand = "Test CPU";
  cpu.best = Isa::kAvx2;
  EXPECT_EQ(ChooseIsa("", cpu).value(), Isa::kAvx2);
  EXPECT_EQ(ChooseIsa("auto", cpu).value(), Isa::kAvx2);
  EXPECT_EQ(ChooseIsa("ref", cpu).value(), Isa::kRef);
}

TEST(Isa, RefusesWhatTheCpuLacksAndListsWhatItHas) {
  CpuFacts cpu;
  cpu.brand = "Test CPU";
  cpu.best = Isa::kAvx2;
  const auto lacking = ChooseIsa("avx512", cpu);
  ASSERT_FALSE(lacking.ok());
  EXPECT_EQ(lacking.status().code(), StatusCode::kDevice);
  EXPECT_THAT(lacking.status().message(), HasSubstr("ref, avx2"));
  const auto unknown = ChooseIsa("neon", cpu);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), HasSubstr("'neon'"));
}

}  // namespace
}  // namespace sluice::cpu
