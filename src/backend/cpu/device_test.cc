#include "backend/cpu/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "backend/cpu/host.h"

namespace sluice::cpu {
namespace {

using device::CopyItem;
using device::MemoryKind;
using device::View;
using ::testing::HasSubstr;

class CpuDeviceTest : public ::testing::Test {
 protected:
  CpuDevice device_{DetectCpu(), Isa::kRef, 2};
  std::unique_ptr<device::Stream> stream_ = std::move(device_.CreateStream().value());
};

TEST_F(CpuDeviceTest, MemoryIsZeroedAlignedAndReadable) {
  for (size_t bytes : {size_t{1}, size_t{257}, size_t{1} << 20, size_t{9} << 20}) {
    for (MemoryKind kind : {MemoryKind::kHost, MemoryKind::kPinned, MemoryKind::kDevice}) {
      auto buffer = device_.Allocate(bytes, kind);
      ASSERT_TRUE(buffer.ok()) << buffer.status().message();
      EXPECT_EQ(buffer->bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 256, 0u);
      EXPECT_EQ(buffer->data()[0], std::byte{0});
      EXPECT_EQ(buffer->data()[bytes - 1], std::byte{0});
      std::memset(buffer->data(), 0x5a, bytes);
    }
  }
}

TEST_F(CpuDeviceTest, AllocationsThatCannotBeAreErrors) {
  for (size_t bytes : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - 255,
                       device_.facts().memory_bytes + 1}) {
    const auto buffer = device_.Allocate(bytes, MemoryKind::kHost);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), StatusCode::kOutOfMemory);
    EXPECT_THAT(buffer.status().message(), HasSubstr(std::to_string(bytes)));
  }
}

TEST_F(CpuDeviceTest, ZeroBytesGiveAViewThatIsNotNull) {
  auto buffer = device_.Allocate(0, MemoryKind::kHost);
  ASSERT_TRUE(buffer.ok());
  EXPECT_NE(buffer->data(), nullptr);
  EXPECT_EQ(buffer->bytes(), 0u);
}

TEST_F(CpuDeviceTest, ALargeBufferTakesNoMemoryUntilTouched) {
  const size_t half = device_.facts().memory_bytes / 2;
  auto first = device_.Allocate(half, MemoryKind::kHost);
  auto second = device_.Allocate(half, MemoryKind::kHost);
  auto third = device_.Allocate(half, MemoryKind::kHost);
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  third->data()[half - 1] = std::byte{1};
}

TEST_F(CpuDeviceTest, CopiesInOrderAndAtOnce) {
  auto a = device_.Allocate(8, MemoryKind::kHost), b = device_.Allocate(8, MemoryKind::kHost);
  std::memcpy(a->data(), "12345678", 8);
  View head = a->view();
  head.bytes = 4;
  View tail = a->view();
  tail.data += 2;
  tail.bytes = 4;
  const CopyItem items[] = {{b->view(), a->view()}, {tail, head}};
  ASSERT_TRUE(device_.Copy(*stream_, items).ok());
  EXPECT_EQ(std::memcmp(b->data(), "12345678", 8), 0);
  EXPECT_EQ(std::memcmp(a->data(), "12123478", 8), 0);
}

TEST_F(CpuDeviceTest, AnItemOfZeroBytesIsSkippedBeforeAnyCheck) {
  View nowhere;
  nowhere.device = {device::DeviceKind::kCuda, 3};
  const CopyItem items[] = {{View{}, nowhere}};
  EXPECT_TRUE(device_.Copy(*stream_, items).ok());
}

TEST_F(CpuDeviceTest, ABadItemIsRefusedAndNothingIsCopied) {
  auto a = device_.Allocate(8, MemoryKind::kHost), b = device_.Allocate(8, MemoryKind::kHost);
  std::memcpy(a->data(), "12345678", 8);
  View null = a->view();
  null.data = nullptr;
  View small = b->view();
  small.bytes = 7;
  View foreign = b->view();
  foreign.device = {device::DeviceKind::kCuda, 0};
  for (const CopyItem& bad :
       {CopyItem{null, a->view()}, CopyItem{a->view(), null}, CopyItem{small, a->view()},
        CopyItem{foreign, a->view()}, CopyItem{a->view(), foreign}}) {
    const CopyItem items[] = {{b->view(), a->view()}, bad};
    const Status status = device_.Copy(*stream_, items);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(b->data()[0], std::byte{0}) << "copied before a refusal";
  }
}

TEST_F(CpuDeviceTest, HasNoGraphsAndSaysSo) {
  EXPECT_EQ(device_.facts().graphs, device::GraphSupport::kNone);
  bool called = false;
  const auto graph = device_.Capture(*stream_, nullptr, [&](device::Stream&) {
    called = true;
    return OkStatus();
  });
  EXPECT_EQ(graph.status().code(), StatusCode::kUnimplemented);
  EXPECT_FALSE(called);
}

TEST_F(CpuDeviceTest, EventsAreDoneOnceRecorded) {
  auto event = device_.CreateEvent();
  ASSERT_TRUE(event.ok());
  EXPECT_TRUE(stream_->Record(**event).ok());
  EXPECT_TRUE(stream_->Wait(**event).ok());
  EXPECT_TRUE((*event)->Done());
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
  EXPECT_FALSE(found[0].device_memory);
}

}  // namespace
}  // namespace sluice::cpu
