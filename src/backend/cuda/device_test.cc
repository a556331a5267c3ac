// The device layer on a GPU; where there is none, these tests say so and pass.
#include "device/device.h"

#include <cstring>
#include <thread>
#include <vector>

#include "backend/cuda/cuda_test.h"
#include "backend/cuda/launch.h"

namespace sluice::cuda {
namespace {

using device::Buffer;
using device::CopyItem;
using device::MemoryKind;
using device::View;

class CudaDeviceTest : public CudaTest {
 protected:
  Buffer Make(size_t bytes, MemoryKind kind) {
    auto buffer = device_->Allocate(bytes, kind);
    EXPECT_TRUE(buffer.ok()) << buffer.status().message();
    return buffer.ok() ? std::move(buffer).value() : Buffer();
  }
  // Pinned memory with bytes seed, seed + 1, ...
  Buffer Numbers(size_t bytes, int seed) {
    Buffer buffer = Make(bytes, MemoryKind::kPinned);
    for (size_t i = 0; i < bytes; ++i) buffer.data()[i] = static_cast<std::byte>(seed + i);
    return buffer;
  }
  View Part(const Buffer& buffer, size_t first, size_t bytes) {
    View view = buffer.view();
    view.data += first;
    view.bytes = bytes;
    return view;
  }
  Status Copy(std::initializer_list<CopyItem> items) {
    return device_->Copy(*stream_, std::span(items.begin(), items.size()));
  }
  // What is in device memory once the stream is done.
  std::vector<int> Read(const View& view) {
    std::vector<std::byte> host(view.bytes);
    const View to = {host.data(), host.size(), MemoryKind::kHost, device_->facts().id};
    const Status status = Copy({{to, view}});
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<int> values;
    for (std::byte b : host) values.push_back(static_cast<int>(b));
    return values;
  }
  std::vector<int> Range(size_t count, int first) {
    std::vector<int> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = (first + static_cast<int>(i)) & 255;
    return values;
  }
};

TEST_F(CudaDeviceTest, FactsAreThoseOfAGpu) {
  const device::DeviceFacts& facts = device_->facts();
  EXPECT_EQ(facts.id.kind, device::DeviceKind::kCuda);
  EXPECT_EQ(facts.architecture.substr(0, 2), "sm");
  EXPECT_GT(facts.compute_units, 0);
  EXPECT_GT(facts.memory_bytes, size_t{1} << 30);
  EXPECT_GT(facts.cache_bytes, 0u);
  EXPECT_TRUE(facts.device_memory && facts.pinned_memory && facts.runs_beside_host);
  EXPECT_FALSE(facts.shares_host_memory || facts.reference_order);
}

TEST_F(CudaDeviceTest, TheCacheGivesTheSameMemoryAgainAndItIsZeroed) {
  const std::byte* first = nullptr;
  {
    const Buffer used = Make(5000, MemoryKind::kDevice);
    first = used.data();
    const Buffer numbers = Numbers(5000, 1);
    ASSERT_TRUE(Copy({{used.view(), numbers.view()}}).ok());
    EXPECT_EQ(Read(used.view()), Range(5000, 1));
  }
  const Buffer again = Make(5000, MemoryKind::kDevice);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(Read(again.view()), std::vector<int>(5000, 0));
}

TEST_F(CudaDeviceTest, TooMuchMemoryIsAnErrorThatNamesTheFlag) {
  const auto failed = device_->Allocate(device_->facts().memory_bytes * 2, MemoryKind::kDevice);
  ASSERT_EQ(failed.status().code(), StatusCode::kOutOfMemory);
  EXPECT_NE(failed.status().message().find("--kv-memory"), std::string::npos)
      << failed.status().message();
}

// Both have the GPU's one context, and each its own kernels.
TEST_F(CudaDeviceTest, ASecondDeviceOfTheSameGpuComesAndGoes) {
  const auto works = [](DeviceMemory& memory) {
    const ops::Array from = ops::Array::Ints({1, 2, 3, 4}), to = ops::Array::Ints({0, 0, 0, 0});
    const ops::Tensor a = memory.Upload(from), b = memory.Upload(to);
    const auto part = [&](const ops::Tensor& t, size_t first) {
      return View{t.data + first, 4, MemoryKind::kDevice, memory.device().facts().id};
    };
    const CopyItem items[] = {{part(b, 0), part(a, 12)}, {part(b, 8), part(a, 0)}};  // a kernel
    EXPECT_TRUE(memory.device().Copy(memory.stream(), items).ok());
    EXPECT_EQ(memory.Download(b, to), ops::Array::Ints({4, 0, 1, 0}));
  };
  works(*memory_);
  for (int round = 0; round < 3; ++round) {
    auto other = std::make_unique<DeviceMemory>();
    works(*other);
    works(*memory_);
    std::thread([&] { works(*other); }).join();
    if (round == 1) memory_.reset();  // the older one may end first
    if (round == 1) works(*other);
    other.reset();
    if (round == 1) memory_.emplace();
    works(*memory_);
  }
  device_ = &memory_->device();
  stream_ = &memory_->stream();
}

TEST_F(CudaDeviceTest, FreeMemoryCountsWhatTheCacheHolds) {
  Buffer large = Make(size_t{256} << 20, MemoryKind::kDevice);
  const auto held = device_->Memory();
  large = Buffer();
  const auto freed = device_->Memory();
  ASSERT_TRUE(held.ok() && freed.ok());
  EXPECT_GE(freed->free_bytes, held->free_bytes + (size_t{256} << 20));
  EXPECT_LE(freed->free_bytes, freed->total_bytes);
}

TEST_F(CudaDeviceTest, RunsOfABatchAreOneLaunchHoweverManyAndKeepTheirOrder) {
  const Buffer numbers = Numbers(64 * 64, 0), source = Make(64 * 64, MemoryKind::kDevice);
  const Buffer target = Make(64 * 64, MemoryKind::kDevice);
  ASSERT_TRUE(Copy({{source.view(), numbers.view()}}).ok());
  const auto launches = [&](size_t runs) {
    std::vector<CopyItem> items;
    for (size_t i = 0; i < runs; ++i)
      items.push_back({Part(target, 64 * (63 - i), 32), Part(source, 64 * i, 32)});
    const device::SubmitCounts before = stream_->counts();
    EXPECT_TRUE(device_->Copy(*stream_, items).ok());
    EXPECT_EQ(stream_->counts().host_calls - before.host_calls, 1u);
    return stream_->counts().kernels - before.kernels;
  };
  EXPECT_EQ(launches(2), 1u);
  EXPECT_EQ(launches(64), 1u);
  const std::vector<int> got = Read(target.view());
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(got[64 * (63 - i) + 5], static_cast<int>((64 * i + 5) & 255));
  // What reads an earlier result comes after it.
  ASSERT_TRUE(Copy({{Part(target, 0, 16), Part(source, 16, 16)},
                    {Part(target, 100, 16), Part(target, 0, 16)}})
                  .ok());
  EXPECT_EQ(Read(Part(target, 100, 16)), Range(16, 16));
}

// A graph of copies whose source a replay refreshes.
class CudaGraphTest : public CudaDeviceTest {
 protected:
  void SetUp() override {
    CudaDeviceTest::SetUp();
    if (device_ == nullptr) return;
    in_ = Make(256, MemoryKind::kDevice);
    out_ = Make(256, MemoryKind::kDevice);
  }
  void TearDown() override {
    in_ = Buffer();
    out_ = Buffer();
    CudaDeviceTest::TearDown();
  }
  // Two runs, so that it is a kernel.
  Status Body(device::Stream& stream) {
    const CopyItem items[] = {{Part(out_, 0, 64), Part(in_, 64, 64)},
                              {Part(out_, 128, 64), Part(in_, 0, 64)}};
    return device_->Copy(stream, items);
  }
  device::ReplayParams Params(const Buffer& source) {
    return {{{"low", Part(source, 0, 128), Part(in_, 0, 128)},
             {"high", Part(source, 128, 128), Part(in_, 128, 128)}}};
  }

  Buffer in_, out_;
};

TEST_F(CudaGraphTest, AReplaySeesFreshParametersAndCostsTwoCalls) {
  auto graph = device_->Capture(*stream_, nullptr, [&](device::Stream& s) { return Body(s); });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Read(out_.view()), std::vector<int>(256, 0)) << "capturing does nothing";
  for (int seed : {1, 50, 99}) {
    const Buffer source = Numbers(256, seed);
    const device::SubmitCounts before = stream_->counts();
    ASSERT_TRUE((*graph)->Replay(*stream_, Params(source)).ok());
    EXPECT_EQ(stream_->counts().host_calls - before.host_calls, 2u)
        << "neighbouring values go in one copy";
    EXPECT_EQ(stream_->counts().kernels - before.kernels, 1u);
    EXPECT_EQ(Read(Part(out_, 0, 64)), Range(64, seed + 64));
    EXPECT_EQ(Read(Part(out_, 128, 64)), Range(64, seed));
  }
}

TEST_F(CudaGraphTest, ParametersThatLieApartStillGoInOneLaunch) {
  auto graph = device_->Capture(*stream_, nullptr, [&](device::Stream& s) { return Body(s); });
  ASSERT_TRUE(graph.ok());
  const Buffer source = Numbers(256, 7);
  const device::ReplayParams params = {{{"a", Part(source, 0, 32), Part(in_, 64, 32)},
                                        {"b", Part(source, 64, 32), Part(in_, 0, 32)},
                                        {"c", Part(source, 128, 16), Part(in_, 32, 16)}}};
  const device::SubmitCounts before = stream_->counts();
  ASSERT_TRUE((*graph)->Replay(*stream_, params).ok());
  EXPECT_EQ(stream_->counts().host_calls - before.host_calls, 2u);
  EXPECT_EQ(Read(Part(out_, 0, 32)), Range(32, 7));
  EXPECT_EQ(Read(Part(out_, 128, 32)), Range(32, 7 + 64));
}

TEST_F(CudaGraphTest, MemoryThatACaptureCannotTakeFailsAndEndsItCleanly) {
  const auto fails = [&](const char* what, auto&& body) {
    const auto graph = device_->Capture(*stream_, nullptr, body);
    EXPECT_EQ(graph.status().code(), StatusCode::kFailedPrecondition) << what;
    EXPECT_NE(graph.status().message().find("graph is captured"), std::string::npos)
        << graph.status().message();
    EXPECT_TRUE(stream_->Synchronize().ok()) << what;
    const auto after =
        device_->Capture(*stream_, nullptr, [&](device::Stream& s) { return Body(s); });
    EXPECT_TRUE(after.ok()) << what << ": " << after.status().message();
  };
  fails("pinned memory",
        [&](device::Stream&) { return device_->Allocate(64, MemoryKind::kPinned).status(); });
  fails("scratch memory that grows",
        [](device::Stream& s) { return Scratch(s, size_t{1} << 30).status(); });
}

TEST_F(CudaGraphTest, ScratchMemoryThatAGraphUsesNeitherGrowsNorMoves) {
  ASSERT_TRUE(stream_->ReserveScratch(4096).ok());
  const auto first = Scratch(*stream_, 64);
  ASSERT_TRUE(first.ok());
  auto graph = device_->Capture(*stream_, nullptr, [&](device::Stream& s) {
    const auto scratch = Scratch(s, 4096);
    EXPECT_EQ(*scratch, *first) << "the same memory";
    const View view = {*scratch, 64, MemoryKind::kDevice, device_->facts().id};
    const CopyItem items[] = {{view, Part(in_, 0, 64)}, {Part(out_, 0, 64), view}};
    return device_->Copy(s, items);
  });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const size_t free_bytes = device_->Memory()->free_bytes;
  EXPECT_EQ(Scratch(*stream_, size_t{1} << 30).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(device_->Memory()->free_bytes, free_bytes);
  const Buffer source = Numbers(256, 11);
  ASSERT_TRUE((*graph)->Replay(*stream_, Params(source)).ok());
  EXPECT_EQ(Read(Part(out_, 0, 64)), Range(64, 11));
}

// As many graphs as a server captures, of as many launches as a model of 32 layers has.
TEST_F(CudaGraphTest, GraphsTakeNoMoreMemoryThanTheDevicesFactsSay) {
  constexpr int kGraphs = 15, kLaunches = 464;
  const auto capture = [&](int launches) {
    return device_->Capture(*stream_, nullptr, [&](device::Stream& s) {
      for (int i = 0; i < launches; ++i) SLUICE_RETURN_IF_ERROR(Body(s));
      return OkStatus();
    });
  };
  std::vector<std::unique_ptr<device::Graph>> graphs;
  const auto first = capture(1);  // loads the kernels
  ASSERT_TRUE(first.ok());
  const size_t before = device_->Memory()->free_bytes;
  for (int i = 0; i < kGraphs; ++i) {
    auto graph = capture(kLaunches);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    graphs.push_back(*std::move(graph));
  }
  const size_t after = device_->Memory()->free_bytes;
  const size_t taken = before > after ? before - after : 0;
  std::printf("%d graphs of %d bodies take %zu bytes\n", kGraphs, kLaunches, taken);
  EXPECT_LE(taken, kGraphs * kLaunches * device_->facts().graph_launch_bytes);
}

TEST_F(CudaDeviceTest, AKernelThatDoesNotExistOrTakesOtherParametersIsNamed) {
  const Status none = Launch(*stream_, {"copy_runs", "no_such_kernel"}, {}, 1);
  EXPECT_NE(none.message().find("copy_runs/no_such_kernel"), std::string::npos) << none.message();
  const Status other = Launch(*stream_, {"copy_runs", "copy_runs"}, {}, 1);
  EXPECT_EQ(other.code(), StatusCode::kInternal) << other.message();
  EXPECT_EQ(Launch(*stream_, {"no_such_module", "x"}, {}, 1).code(), StatusCode::kInternal);
  EXPECT_TRUE(stream_->Synchronize().ok()) << "nothing was launched";
}

// An error of a kernel ends the context, so another process has it.
TEST(CudaDeviceDeathTest, AnErrorOfAKernelNamesIt) {
  auto opened = BackendInstance()->Open({}, 0, {});
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = [&] {
    const auto stream = std::move((*opened)->CreateStream()).value();
    const View nowhere = {reinterpret_cast<std::byte*>(4096), 32, MemoryKind::kDevice,
                          (*opened)->facts().id};
    View there = nowhere;
    there.data += 1024;
    const CopyItem items[] = {{there, nowhere},
                              {{there.data + 64, 16, there.memory, there.device},
                               {nowhere.data + 64, 16, there.memory, there.device}}};
    Status status = (*opened)->Copy(*stream, items);
    if (status.ok()) status = stream->Synchronize();
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::_Exit(status.ok() ? 1 : 0);
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(0),
              "the last kernel launched was copy_runs/copy_runs");
}

}  // namespace
}  // namespace sluice::cuda
