#include "backend/cpu/ceilings/meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/ceilings/kernels.h"
#include "backend/cpu/device.h"

namespace sluice::cpu {
namespace {

TEST(Meter, AnInstructionIsTheBeginningOfAKernelsName) {
  EXPECT_EQ(InstructionOf("avx512_int8_linear"), "avx512_int8");
  EXPECT_EQ(InstructionOf("amx_bf16_linear_wide"), "amx_bf16");
  EXPECT_EQ(InstructionOf("ref_linear"), "");
  EXPECT_EQ(InstructionOf(""), "");
}

TEST(Meter, EveryInstructionOfThisCpuHasAPeak) {
  CpuDevice device(DetectCpu(), DetectCpu().best, 2);
  const auto meter = device.MakeCeilingMeter({.runs = 3, .seconds_per_run = 0.001}).value();
  for (const auto& instruction : meter->Instructions()) {
    const auto peak = meter->Peak(instruction.name);
    ASSERT_TRUE(peak.ok()) << instruction.name;
    EXPECT_GT(peak->min, 1e6) << instruction.name;  // a multiply-add per microsecond
    EXPECT_LE(peak->min, peak->median);
    EXPECT_LE(peak->median, peak->max);
  }
  const auto unknown = meter->Peak("avx1024_int3");
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()), testing::HasSubstr("avx1024_int3"));
}

// Whatever set the kernels are bound to, it is one whose peak can be measured; the reference has
// none.
TEST(Meter, TheInstructionOfTheChosenLinearKernelIsKnown) {
  const CpuFacts cpu = DetectCpu();
  for (Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (isa > cpu.best) continue;
    CpuDevice device(cpu, isa, 1);
    const auto meter = device.MakeCeilingMeter({}).value();
    for (DType weight : {DType::kQ4_1, DType::kQ8_0, DType::kF32}) {
      EXPECT_EQ(meter->LinearInstruction(weight, 576, 1536).empty(), isa == Isa::kRef)
          << Name(isa) << " " << Name(weight);
    }
  }
}

TEST(Meter, ReadsAnySizeThatFitsAndRefusesTheRest) {
  CpuDevice device(DetectCpu(), DetectCpu().best, 3);
  const auto meter = device.MakeCeilingMeter({.runs = 2, .seconds_per_run = 0.0001}).value();
  for (const size_t bytes : {size_t{1}, size_t{5} << 20, (size_t{2} << 20) + 12345}) {
    const auto rate = meter->ReadBandwidth(bytes);
    ASSERT_TRUE(rate.ok()) << bytes;
    EXPECT_GT(rate->min, 1e6);
  }
  EXPECT_EQ(meter->ReadBandwidth(size_t{1} << 50).status().code(), StatusCode::kOutOfMemory);
}

// Every order of access reads the whole share but for the last turns, and nothing beyond it.
TEST(ReadKernels, ReadNearlyAllOfAShare) {
  std::vector<const ReadKernels*> runnable = {&kRefReadKernels};
  if (DetectCpu().best >= Isa::kAvx2) runnable.push_back(&kAvx2ReadKernels);
  if (DetectCpu().best >= Isa::kAvx512) runnable.push_back(&kAvx512ReadKernels);
  for (const ReadKernels* kernels : runnable) {
    for (ReadKernel kernel : kernels->patterns) {
      for (const size_t bytes : {size_t{65536}, size_t{100000}, size_t{1} << 20}) {
        std::vector<std::byte> data(bytes + 64);
        std::byte* aligned =
            data.data() + (64 - reinterpret_cast<uintptr_t>(data.data()) % 64) % 64;
        const size_t read = kernel(aligned, bytes);
        EXPECT_LE(read, bytes);
        EXPECT_GE(read + 16 * 256, bytes);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
