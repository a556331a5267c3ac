// What a stream knows of kernels that it has launched, and how a multiprocessor's memory is shared
// out. Needs no GPU.
#include "backend/cuda/kernels.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::cuda {
namespace {

constexpr std::string_view kModule = "any_f32_norm";

Kernel Named(std::string name) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.param_bytes = {8, 4};
  return kernel;
}

constexpr size_t kParams[] = {8, 4};

TEST(KnownKernels, FindsWhatWasLaunched) {
  const std::string function = "any_f32_norm_bf16";
  const Kernel kernel = Named("any_f32_norm/any_f32_norm_bf16");
  KnownKernels known;
  EXPECT_EQ(known.Find(kModule, function, kParams, 0), nullptr);
  known.Add(kModule, function, 1024, &kernel);
  EXPECT_EQ(known.Find(kModule, function, kParams, 0), &kernel);
  EXPECT_EQ(known.Find(kModule, function, kParams, 1024), &kernel);
}

// These ask the device's list, which opts in to the memory or says what is wrong.
TEST(KnownKernels, MoreMemoryOrOtherParametersAreNotKnown) {
  const std::string function = "any_f32_norm_bf16";
  const Kernel kernel = Named("any_f32_norm/any_f32_norm_bf16");
  KnownKernels known;
  known.Add(kModule, function, 1024, &kernel);
  EXPECT_EQ(known.Find(kModule, function, kParams, 1025), nullptr);
  constexpr size_t kOthers[] = {8, 8}, kMore[] = {8, 4, 4};
  EXPECT_EQ(known.Find(kModule, function, kOthers, 0), nullptr);
  EXPECT_EQ(known.Find(kModule, function, kMore, 0), nullptr);
}

// Names that calls put together may lie where others did.
TEST(KnownKernels, AnotherNameAtTheSameAddressIsAnotherKernel) {
  std::string function = "attention_rows_16";
  const Kernel kernel = Named("any_f32_norm/attention_rows_16");
  KnownKernels known;
  known.Add(kModule, function, 0, &kernel);
  function[function.size() - 1] = '4';
  EXPECT_EQ(known.Find(kModule, function, kParams, 0), nullptr);
  function[function.size() - 1] = '6';
  EXPECT_EQ(known.Find("any_f32_nor", function, kParams, 0), nullptr);
  EXPECT_EQ(known.Find("any_f16_norm", function, kParams, 0), nullptr);
  EXPECT_EQ(known.Find(kModule, function, kParams, 0), &kernel);
}

constexpr unsigned kUnit = 228 << 10;  // of an H200

unsigned Bytes(unsigned block) { return SharedPercent(block, kUnit) * kUnit / 100; }

TEST(SharedPercentTest, TwoThreadBlocksFit) {
  for (unsigned block = 0; block <= 113 << 10; block += 1 << 10) {
    EXPECT_GE(Bytes(block), 2 * block) << block;
    EXPECT_LE(SharedPercent(block, kUnit), 100u) << block;
  }
}

// Kernels of little shared memory ask for the same share, between which nothing has to change.
TEST(SharedPercentTest, TheCacheHasTheRestAndLittleSharedMemoryIsOneShare) {
  EXPECT_EQ(SharedPercent(0, kUnit), SharedPercent(20 << 10, kUnit));
  EXPECT_LT(Bytes(20 << 10), kUnit / 2);
  EXPECT_LT(Bytes(40 << 10), kUnit / 2);
  EXPECT_EQ(SharedPercent(227 << 10, kUnit), 100u);
}

TEST(SharedPercentTest, ADeviceThatDoesNotTellGetsAll) { EXPECT_EQ(SharedPercent(1024, 0), 100u); }

}  // namespace
}  // namespace sluice::cuda
