#include "backend/xpu/device.h"

#include <gmock/gmock.h>
#include <malloc.h>

#include <climits>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "backend/xpu/xpu_fixture.h"

namespace sluice::xpu {
namespace {

using device::CopyItem;
using device::MemoryKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using XpuDeviceTest = XpuTest;

device::View Part(const device::Buffer& buffer, size_t offset, size_t bytes) {
  device::View view = buffer.view();
  view.data += offset;
  view.bytes = bytes;
  return view;
}

// Memory that comes straight from Linux is not written to make it zeros.
TEST_F(XpuDeviceTest, LargeMemoryIsZeroedAlsoWhenItWasUsedBefore) {
  for (size_t bytes : {(size_t{80} << 20) + 3, (size_t{80} << 20) + 3, size_t{80} << 20}) {
    const auto buffer = device_->Allocate(bytes, MemoryKind::kDevice);
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    for (uint8_t byte : Download<uint8_t>(*buffer)) ASSERT_EQ(byte, 0);
    std::vector<uint8_t> dirt(bytes, 0x5a);
    const CopyItem item{buffer->view(), Host(dirt)};
    ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
  }
}

// While it lives, malloc keeps what is freed and gives it out again, whatever the size.
class KeptMemory {
 public:
  KeptMemory() : kept_(mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1) {}
  ~KeptMemory() {
    mallopt(M_MMAP_MAX, 65536);
    mallopt(M_TRIM_THRESHOLD, 128 << 10);
    malloc_trim(0);
  }
  // Sanitizers have a malloc of their own.
  bool kept() const { return kept_; }

 private:
  bool kept_;
};

TEST_F(XpuDeviceTest, LargeMemoryThatMallocGivesOutAgainIsZeroed) {
  const KeptMemory memory;
  constexpr size_t kBefore = size_t{70} << 20, kBytes = size_t{65} << 20;  // there for certain
  std::vector<uint8_t> bytes(kBefore, 0x5a);
  auto buffer = device_->Allocate(kBefore, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  const CopyItem dirt{buffer->view(), Host(bytes)};
  ASSERT_TRUE(device_->Copy(*stream_, {&dirt, 1}).ok());
  const auto before = reinterpret_cast<uintptr_t>(buffer->data());
  *buffer = device::Buffer();
  buffer = device_->Allocate(kBytes, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  if (memory.kept() && device_->facts().on_host_processor) {
    const auto now = reinterpret_cast<uintptr_t>(buffer->data());
    EXPECT_TRUE(now < before + kBefore && before < now + kBytes) << "this shows nothing";
  }
  bytes.resize(kBytes);
  const CopyItem item{Host(bytes), buffer->view()};
  ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), static_cast<std::ptrdiff_t>(kBytes));
}

// Keeps the stream busy for a while: whoever does not wait for it comes too early.
class BusyTest : public XpuDeviceTest {
 protected:
  void SetUp() override {
    XpuDeviceTest::SetUp();
    large_ = std::move(device_->Allocate(size_t{64} << 20, MemoryKind::kDevice).value());
  }
  void MakeBusy() {
    const size_t half = large_.bytes() / 2;
    const CopyItem item{Part(large_, half, half), Part(large_, 0, half)};
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
  }
  device::Buffer large_;
};

TEST_F(BusyTest, SmallCopiesFromTheHostKeepTheirBytesUntilTheStreamComesToThem) {
  constexpr size_t kCount = 4096, kEach = 4096;  // more than the stream's staging memory holds
  std::vector<uint32_t> values(kCount * kEach / 4);
  std::iota(values.begin(), values.end(), 1u);
  const auto buffer = device_->Allocate(kCount * kEach, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.ok());
  const device::View host = Host(values);
  MakeBusy();
  for (size_t at = 0; at < host.bytes; at += kEach) {
    device::View source = host;
    source.data += at;
    source.bytes = kEach;
    const CopyItem item{Part(*buffer, at, kEach), source};
    ASSERT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
  }
  EXPECT_EQ(Download<uint32_t>(*buffer), values);
}

// A copy to pinned memory is not awaited.
TEST_F(BusyTest, ACopyOnTheHostWaitsForWhatTheStreamWritesThere) {
  const auto source = Upload(std::vector<int>(1000, 7));
  std::vector<int> between(1000), last(1000);
  device::View pinned = Host(between);
  pinned.memory = MemoryKind::kPinned;
  MakeBusy();
  const CopyItem items[] = {{pinned, source.view()}, {Host(last), pinned}};
  ASSERT_TRUE(device_->Copy(*stream_, items).ok());
  EXPECT_EQ(last, std::vector<int>(1000, 7));
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

// What others use of the host's memory is not there for the KV cache.
TEST_F(XpuDeviceTest, MemoryOfTheHostsProcessorIsTheHosts) {
  const device::DeviceFacts& facts = device_->facts();
  EXPECT_TRUE(facts.device_memory && facts.pinned_memory && facts.runs_beside_host);
  EXPECT_FALSE(facts.reference_order);
  if (facts.on_host_processor) {
    EXPECT_TRUE(facts.shares_host_memory);
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

TEST_F(XpuDeviceTest, WhatIsFreedIsAllThatWasCounted) {
  const size_t before = device_->allocated_bytes();
  for (const size_t bytes : {0, 1, 4097, 1'000'003}) {
    auto buffer = device_->Allocate(bytes, MemoryKind::kDevice);
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    EXPECT_GT(device_->allocated_bytes(), before);
    EXPECT_GE(device_->allocated_bytes(), before + bytes);
    *buffer = device::Buffer();
    EXPECT_EQ(device_->allocated_bytes(), before) << bytes;
  }
}

TEST(XpuErrorTest, EveryCodeOfTheStandardHasItsName) {
  EXPECT_THAT(ErrorOf(-36, "waiting").message(), HasSubstr("waiting: CL_INVALID_COMMAND_QUEUE"));
  for (int code = -1; code >= -72; --code) {
    if (code < -19 && code > -30) continue;  // not given to any
    EXPECT_THAT(ErrorOf(code, "x").message(), HasSubstr(": CL_")) << code;
  }
  EXPECT_THAT(ErrorOf(-9999, "x").message(), HasSubstr("-9999"));
}

TEST_F(XpuDeviceTest, ATimerTellsWhenTheDeviceCameToIt) {
  const auto before = std::move(device_->CreateTimer().value());
  const auto after = std::move(device_->CreateTimer().value());
  auto buffer = device_->Allocate(size_t{64} << 20, MemoryKind::kDevice);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  const device::View half = Part(*buffer, 0, size_t{32} << 20);
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

TEST(XpuSelectTest, GpusOfOtherMakersAreSeenWhenTheyAreAskedFor) {
  std::vector<FoundDevice> all = {Fake("intel", false), Fake("other", false), Fake("cpu", true)};
  all[1].other_maker = true;
  EXPECT_THAT(Names(SelectDevices(all, {})), ElementsAre("intel", "cpu"));
  EXPECT_THAT(Names(SelectDevices(all, {.any_vendor = true})),
              ElementsAre("intel", "other", "cpu"));
}

TEST(XpuBackendTest, AProcessorsDeviceRunsAGpusKernelsWhereItIsAskedTo) {
  const auto plain = ChooseDevice({}, 0), as_gpu = ChooseDevice({.gpu_kernels = true}, 0);
  ASSERT_TRUE(plain.ok() && as_gpu.ok()) << plain.status().message();
  EXPECT_EQ(as_gpu->device, plain->device);
  EXPECT_FALSE(as_gpu->facts.on_host_processor);
  EXPECT_EQ(as_gpu->facts.shares_host_memory, plain->facts.shares_host_memory);
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
