#include "backend/cpu/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/host.h"
#include "backend/cpu/ops.h"

namespace sluice::cpu {
namespace {

using device::MemoryKind;
using ::testing::HasSubstr;

class CpuDeviceTest : public ::testing::Test {
 protected:
  CpuDevice device_{DetectCpu(), Isa::kRef, 2};
};

TEST_F(CpuDeviceTest, AnAllocationThatCannotBeIsAnErrorThatNamesIt) {
  const size_t bytes = device_.facts().memory_bytes + 1;
  const auto buffer = device_.Allocate(bytes, MemoryKind::kHost);
  ASSERT_EQ(buffer.status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(buffer.status().message(), HasSubstr(std::to_string(bytes)));
}

TEST_F(CpuDeviceTest, ALargeBufferTakesNoMemoryUntilTouched) {
  const size_t half = device_.facts().memory_bytes / 2;
  auto first = device_.Allocate(half, MemoryKind::kHost);
  auto second = device_.Allocate(half, MemoryKind::kHost);
  auto third = device_.Allocate(half, MemoryKind::kHost);
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  third->data()[half - 1] = std::byte{1};
}

TEST_F(CpuDeviceTest, WhatIsGivenBackTakesNoMemoryUntilWritten) {
  constexpr size_t kBytes = size_t{32} << 20, kPage = 4096;
  auto buffer = device_.Allocate(kBytes, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.ok());
  std::memset(buffer->data(), 7, kBytes);
  const auto resident = [&] {
    std::vector<unsigned char> pages(kBytes / kPage);
    EXPECT_EQ(mincore(buffer->data(), kBytes, pages.data()), 0);
    size_t count = 0;
    for (const unsigned char page : pages) count += page & 1;
    return count;
  };
  EXPECT_EQ(resident(), kBytes / kPage);
  device::View part = buffer->view();
  part.data += 100;  // pages that it has a part of stay
  part.bytes = kBytes / 2;
  device_.GiveBack(part);
  EXPECT_EQ(resident(), kBytes / kPage / 2 + 1);
  EXPECT_EQ(buffer->data()[99], std::byte{7});
  EXPECT_EQ(buffer->data()[kBytes / 2 + 100], std::byte{7});
  EXPECT_EQ(buffer->data()[kBytes / 2 - 1], std::byte{0});
}

TEST_F(CpuDeviceTest, MemoryFitsTheMachine) {
  const auto info = device_.Memory();
  ASSERT_TRUE(info.ok());
  EXPECT_GT(info->free_bytes, 0u);
  EXPECT_LE(info->free_bytes, info->total_bytes);
  EXPECT_EQ(info->total_bytes, device_.facts().memory_bytes);
}

TEST(CpuBackendTest, OpensWithTheOptionsGiven) {
  const auto opened = CpuBackend().Open({}, 0, {.threads = 1, .instruction_set = "ref"});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->facts().architecture, "ref");
  EXPECT_EQ((*opened)->facts().compute_units, 1);
  const auto best = CpuBackend().Open({}, 0, {});
  ASSERT_TRUE(best.ok());
  EXPECT_EQ((*best)->facts().architecture, Name(DetectCpu().best));
  EXPECT_GE((*best)->facts().compute_units, 1);
  EXPECT_LE((*best)->facts().compute_units, AllowedCpus());
}

TEST(CpuBackendTest, TooManyThreadsNamesTheValueAndTheLimit) {
  for (int threads : {-1, AllowedCpus() + 1, std::numeric_limits<int>::max()}) {
    const auto opened = CpuBackend().Open({}, 0, {.threads = threads});
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.status().message(), HasSubstr(std::to_string(threads)));
    EXPECT_THAT(opened.status().message(), HasSubstr(StrCat("may use ", AllowedCpus())));
    EXPECT_EQ(opened.status().field(), "threads");
  }
}

TEST(CpuBackendTest, AnUnknownInstructionSetListsTheLegalOnes) {
  const auto opened = CpuBackend().Open({}, 0, {.instruction_set = "sse9"});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(opened.status().message(), HasSubstr("ref"));
}

TEST(CpuBackendTest, AnotherIndexIsAnError) {
  EXPECT_EQ(CpuBackend().Open({}, 1, {}).status().code(), StatusCode::kDevice);
}

TEST(CpuBackendTest, ProbeFindsOneCpu) {
  const auto found = CpuBackend().Probe({});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(device::ToString(found[0].id), "cpu");
  EXPECT_FALSE(found[0].device_memory || found[0].runs_beside_host);
  EXPECT_TRUE(found[0].shares_host_memory && found[0].reference_order);
  EXPECT_EQ(found[0].host_threads, found[0].compute_units);
}

TEST(CpuOpsTest, NamesSayInWhatKernelsMultiply) {
  for (const char* set : {"ref", "avx2", "avx512", "amx"}) {
    device::DeviceFacts facts;
    facts.architecture = set;
    ops::OpTable table(&facts);
    RegisterCpuOps(table);
    EXPECT_FALSE(table.Arithmetics().empty());
    for (const auto& [name, arithmetic] : table.Arithmetics())
      EXPECT_EQ(arithmetic, ops::ArithmeticInName(name)) << name;
  }
}

}  // namespace
}  // namespace sluice::cpu
