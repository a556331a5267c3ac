#include "backend/xpu/device.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <numeric>

#include "backend/xpu/xpu_fixture.h"
#include "ops/embedding.h"

namespace sluice::xpu {
namespace {

using device::CopyItem;
using device::MemoryKind;
using device::View;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using XpuDeviceTest = XpuTest;

View Part(const device::Buffer& buffer, size_t offset, size_t bytes) {
  View view = buffer.view();
  view.data += offset;
  view.bytes = bytes;
  return view;
}

TEST_F(XpuDeviceTest, MemoryIsZeroedAndAligned) {
  for (size_t bytes : {size_t{1}, size_t{257}, size_t{3} << 20, (size_t{80} << 20) + 3,
                       (size_t{80} << 20) + 3, size_t{3} << 20}) {
    auto buffer = device_->Allocate(bytes, MemoryKind::kDevice);
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(buffer->view().memory, MemoryKind::kDevice);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 256, 0u);
    for (uint8_t byte : Download<uint8_t>(*buffer)) ASSERT_EQ(byte, 0);
    std::vector<uint8_t> dirt(bytes, 0x5a);  // what the next buffer may be given
    const CopyItem item{buffer->view(), Host(dirt)};
    ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
  }
  EXPECT_TRUE(device_->Allocate(0, MemoryKind::kDevice).ok());
}

// Whether Linux was asked for large pages where `data` lies.
bool WantsHugePages(const std::byte* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
      inside = begin <= address && address < end;
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST_F(XpuDeviceTest, LargeMemoryOfTheHostsProcessorLiesInLargePages) {
  const auto buffer = device_->Allocate(size_t{80} << 20, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.ok());
  const bool linux_has_them = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
  EXPECT_EQ(WantsHugePages(buffer->data() + (size_t{40} << 20)),
            device_->facts().on_host_processor && linux_has_them);
}

TEST_F(XpuDeviceTest, AnAllocationThatCannotBeIsAnError) {
  for (size_t bytes : {std::numeric_limits<size_t>::max(), device_->facts().memory_bytes + 1}) {
    const auto buffer = device_->Allocate(bytes, MemoryKind::kDevice);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), StatusCode::kOutOfMemory);
  }
}

TEST_F(XpuDeviceTest, WhatIsInUseIsNotFree) {
  // Nearly all, since what others leave of the host's memory may be less than the rest.
  const size_t total = device_->Memory()->total_bytes;
  const size_t bytes =
      std::min(device_->facts().allocation_bytes_max, total) / 4096 * 4096 - (size_t{1} << 20);
  const auto buffer = device_->Allocate(bytes, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  EXPECT_LE(device_->Memory()->free_bytes, total - bytes);
  EXPECT_EQ(device_->Memory()->total_bytes, total);
}

TEST_F(XpuDeviceTest, AHostSourceMayChangeWhenTheCopyReturns) {
  const auto buffer = device_->Allocate(3 * sizeof(int), MemoryKind::kDevice);
  std::vector<int> values = {1, 2, 3};
  for (int round = 0; round < 5000; ++round) {
    values = {round, round + 1, round + 2};
    const CopyItem item{buffer->view(), Host(values)};
    ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
    values = {-1, -1, -1};
  }
  EXPECT_THAT(Download<int>(*buffer), ElementsAre(4999, 5000, 5001));
}

TEST_F(XpuDeviceTest, RowsAreCopiedOnTheDeviceAndToTheHost) {
  std::vector<int> values(40);
  std::iota(values.begin(), values.end(), 0);
  const auto from = Upload(values);
  const auto to = device_->Allocate(24 * sizeof(int), MemoryKind::kDevice);
  // Three rows of 2 from a matrix of width 10 into one of width 8, and back to the host densely.
  CopyItem rows{to->view(), from.view()};
  rows.rows = 3;
  rows.row_bytes = 2 * sizeof(int);
  rows.source_stride = 10 * sizeof(int);
  rows.destination_stride = 8 * sizeof(int);
  std::vector<int> got(6);
  CopyItem back{Host(got), to->view()};
  back.rows = 3;
  back.row_bytes = 2 * sizeof(int);
  back.source_stride = 8 * sizeof(int);
  back.destination_stride = 2 * sizeof(int);
  const CopyItem items[] = {rows, back};
  ASSERT_TRUE(device_->Copy(*stream_, items).ok());
  EXPECT_THAT(got, ElementsAre(0, 1, 10, 11, 20, 21));
}

TEST_F(XpuDeviceTest, OverlappingAndOddPiecesArriveWhole) {
  std::vector<uint8_t> values(100);
  std::iota(values.begin(), values.end(), uint8_t{0});
  const auto buffer = Upload(values);
  const CopyItem item{Part(buffer, 13, 50), Part(buffer, 0, 50)};
  ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
  const auto got = Download<uint8_t>(buffer);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(got[13 + i], i);
  EXPECT_EQ(got[63], 63);
}

TEST_F(XpuDeviceTest, ABadItemIsRefusedAndNothingIsCopied) {
  const auto a = Upload(std::vector<int>{7, 8}), b = Upload(std::vector<int>{1, 2});
  View foreign = a.view();
  foreign.device = {device::DeviceKind::kCuda, 0};
  const CopyItem items[] = {{b.view(), a.view()}, {b.view(), foreign}};
  EXPECT_EQ(device_->Copy(*stream_, items).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Download<int>(b), ElementsAre(1, 2));
}

TEST_F(XpuDeviceTest, AStreamWaitsForAnEventOfAnother) {
  auto other = std::move(device_->CreateStream().value());
  auto event = std::move(device_->CreateEvent().value());
  EXPECT_TRUE(event->Done());  // nothing was recorded
  std::vector<uint8_t> big(8 << 20, 5);
  const auto a = Upload(big);
  const auto b = device_->Allocate(big.size(), MemoryKind::kDevice);
  const auto c = device_->Allocate(big.size(), MemoryKind::kDevice);
  const CopyItem first{b->view(), a.view()}, second{c->view(), b->view()};
  ASSERT_TRUE(device_->Copy(*stream_, {&first, 1}).ok());
  ASSERT_TRUE(stream_->Record(*event).ok());
  ASSERT_TRUE(other->Wait(*event).ok());
  ASSERT_TRUE(device_->Copy(*other, {&second, 1}).ok());
  ASSERT_TRUE(other->Synchronize().ok());
  EXPECT_TRUE(event->Done());
  EXPECT_TRUE(event->Synchronize().ok());
  EXPECT_EQ(Download<uint8_t>(*c), big);
}

TEST_F(XpuDeviceTest, ATimerTellsWhenTheDeviceCameToIt) {
  const auto before = std::move(device_->CreateTimer().value());
  const auto after = std::move(device_->CreateTimer().value());
  auto buffer = device_->Allocate(size_t{64} << 20, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  const View half = Part(*buffer, 0, size_t{32} << 20);
  const CopyItem item{Part(*buffer, half.bytes, half.bytes), half};
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(stream_->Record(*before).ok());
    ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
    ASSERT_TRUE(stream_->Record(*after).ok());
    ASSERT_TRUE(after->Synchronize().ok());
    const auto seconds = after->SecondsSince(*before);
    ASSERT_TRUE(seconds.ok()) << seconds.status().message();
    EXPECT_GT(*seconds, 0);
    EXPECT_LT(*seconds, 10);
    EXPECT_EQ(*before->SecondsSince(*after), -*seconds);
  }
  const auto plain = std::move(device_->CreateEvent().value());
  ASSERT_TRUE(stream_->Record(*plain).ok());
  ASSERT_TRUE(plain->Synchronize().ok());
  EXPECT_EQ(plain->SecondsSince(*before).status().code(), StatusCode::kUnimplemented);
}

TEST_F(XpuDeviceTest, WhatChecksEachOpCapturesNothing) {
  EXPECT_NE(device_->facts().graphs, device::GraphSupport::kNone);
  Open({.check_each_op = true, .cache_folder = TestCache()});
  EXPECT_EQ(device_->facts().graphs, device::GraphSupport::kNone);
  const auto graph =
      device_->Capture(*stream_, nullptr, [](device::Stream&) { return OkStatus(); });
  EXPECT_EQ(graph.status().code(), StatusCode::kUnimplemented);
}

TEST_F(XpuDeviceTest, HostMemoryIsPlainAndSharedMemoryIsRefused) {
  const auto host = device_->Allocate(100, MemoryKind::kPinned);
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host->view().memory, MemoryKind::kHost);
  host->data()[99] = std::byte{1};
  EXPECT_EQ(device_->Allocate(100, MemoryKind::kShared).status().code(),
            StatusCode::kUnimplemented);
}

FoundDevice Fake(const std::string& name, bool host) {
  FoundDevice found;
  found.facts.name = name;
  found.facts.on_host_processor = host;
  return found;
}

std::vector<std::string> Names(const std::vector<FoundDevice>& devices) {
  std::vector<std::string> names;
  for (size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(devices[i].facts.id.index, static_cast<int>(i));
    names.push_back(devices[i].facts.name);
  }
  return names;
}

TEST(XpuSelectTest, VisibleDevicesAreSeenInTheirOrder) {
  const std::vector<FoundDevice> all = {Fake("a", false), Fake("b", false), Fake("cpu", true)};
  EXPECT_THAT(Names(SelectDevices(all, {})), ElementsAre("a", "b", "cpu"));
  const auto entries = [](std::vector<device::VisibleDevices::Entry> list) {
    device::VisibleDevices visible;
    visible.restricted = true;
    visible.entries = std::move(list);
    return visible;
  };
  EXPECT_THAT(Names(SelectDevices(all, entries({{.device = 1}, {.device = 0}}))),
              ElementsAre("b", "a", "cpu"));
  EXPECT_THAT(Names(SelectDevices(all, entries({{.device = 7}}))), ElementsAre("cpu"));
}

TEST(XpuBackendTest, AnAbsentDeviceIsAnErrorThatNamesIt) {
  const auto opened = XpuBackend().Open({}, 99, {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), StatusCode::kDevice);
  EXPECT_THAT(opened.status().message(), HasSubstr("xpu:99"));
}

class ProgramCacheTest : public XpuTest {
 protected:
  void SetUp() override {
    folder_ = TestCache() + "-cache";
    std::filesystem::remove_all(folder_);
    ASSERT_FALSE(AllDevices().empty()) << WhyNoDevices();
    Open({.cache_folder = folder_});
  }
  Programs::Counts Build() {
    EXPECT_TRUE(device_->programs().Get("copy/any_copy", "").ok());
    return device_->programs().counts();
  }
  std::string folder_;
};

TEST_F(ProgramCacheTest, ASecondStartCompilesNothing) {
  EXPECT_EQ(Build().compiled, 1);
  EXPECT_EQ(Build().compiled, 1);
  Open({.cache_folder = folder_});
  EXPECT_EQ(Build().compiled, 0);
  EXPECT_EQ(Build().loaded, 1);
}

TEST_F(ProgramCacheTest, AFileThatWasCutOrChangedIsCompiledAgain) {
  Build();
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::filesystem::resize_file(entry, std::filesystem::file_size(entry) - 5);
  }
  Open({.cache_folder = folder_});
  EXPECT_EQ(Build().compiled, 1);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('?');
  }
  Open({.cache_folder = folder_});
  EXPECT_EQ(Build().compiled, 1);
}

TEST_F(ProgramCacheTest, AFolderThatCannotBeWrittenOnlyCostsTime) {
  Open({.cache_folder = "/proc/no/such/folder"});
  EXPECT_EQ(Build().compiled, 1);
}

TEST_F(ProgramCacheTest, ARefusedProgramNamesTheFileWithTheCompilersWords) {
  const auto program = device_->programs().Get("norm/any_f32_norm", "-D ITEMS=1 -D ACT=nonsense");
  ASSERT_FALSE(program.ok());
  const std::string& message = program.status().message();
  EXPECT_THAT(message, HasSubstr("norm/any_f32_norm"));
  const size_t begin = message.find(folder_), end = message.find(')', begin);
  ASSERT_NE(begin, std::string::npos) << message;
  std::ifstream log(message.substr(begin, end - begin));
  const std::string said((std::istreambuf_iterator<char>(log)), {});
  EXPECT_THAT(said, HasSubstr("nonsense"));
}

}  // namespace
}  // namespace sluice::xpu
