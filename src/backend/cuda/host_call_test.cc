// Calls of the host in the order of a stream, on a GPU; where there is none, these tests say so and
// pass.
#include <atomic>
#include <vector>

#include "backend/cuda/cuda_test.h"

namespace sluice::cuda {
namespace {

using device::Buffer;
using device::CopyItem;
using device::MemoryKind;
using device::View;

class CudaHostCallTest : public CudaTest {
 protected:
  static constexpr size_t kNumbers = 1024;

  void SetUp() override {
    CudaTest::SetUp();
    if (device_ == nullptr) return;
    pinned_ = std::move(device_->Allocate(kNumbers * 4, MemoryKind::kPinned).value());
    there_ = std::move(device_->Allocate(kNumbers * 4, MemoryKind::kDevice).value());
  }
  void TearDown() override {
    pinned_ = Buffer();
    there_ = Buffer();
    CudaTest::TearDown();
  }
  static View Part(const Buffer& buffer, size_t first, size_t count) {
    View view = buffer.view();
    view.data += 4 * first;
    view.bytes = 4 * count;
    return view;
  }
  Status Copy(device::Stream& stream, std::initializer_list<CopyItem> items) {
    return device_->Copy(stream, std::span(items.begin(), items.size()));
  }
  int32_t* numbers() { return reinterpret_cast<int32_t*>(pinned_.data()); }
  // As a layer whose experts lie on the host: a kernel, a copy to the host, a call there that
  // changes what came, and a copy back.
  Status Layer(device::Stream& stream) {
    SLUICE_RETURN_IF_ERROR(Copy(stream, {{Part(there_, 0, 8), Part(there_, 16, 8)},
                                         {Part(there_, 32, 8), Part(there_, 48, 8)}}));
    SLUICE_RETURN_IF_ERROR(Copy(stream, {{pinned_.view(), there_.view()}}));
    SLUICE_RETURN_IF_ERROR(stream.CallOnHost([this] {
      ++calls_;
      for (size_t i = 0; i < kNumbers; ++i) ++numbers()[i];
      return OkStatus();
    }));
    return Copy(stream, {{there_.view(), pinned_.view()}});
  }

  Buffer pinned_, there_;
  std::atomic<int> calls_ = 0;
};

TEST_F(CudaHostCallTest, TheHostGoesOnUntilTheStreamGetsThere) {
  std::atomic<bool> go = false, called = false;
  const auto event = std::move(device_->CreateEvent()).value();
  ASSERT_TRUE(stream_
                  ->CallOnHost([&] {
                    while (!go) continue;
                    called = true;
                    return OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream_->Record(*event).ok());
  EXPECT_FALSE(event->Done());
  EXPECT_FALSE(called);
  go = true;
  ASSERT_TRUE(event->Synchronize().ok());
  EXPECT_TRUE(called);
}

TEST_F(CudaHostCallTest, ReplaysOfAGraphCallItBetweenTheWorkAround) {
  constexpr int kLayers = 48, kReplays = 40;
  const auto graph = device_->Capture(*stream_, nullptr, [&](device::Stream& stream) {
    for (int i = 0; i < kLayers; ++i) SLUICE_RETURN_IF_ERROR(Layer(stream));
    return OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(calls_, 0);
  for (int i = 0; i < kReplays; ++i) ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
  ASSERT_TRUE(Layer(*stream_).ok());  // beside them, without a graph
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(calls_, kLayers * kReplays + 1);
  // A call that came too early or too late would have lost what another one counted.
  for (size_t i = 0; i < kNumbers; ++i) ASSERT_EQ(numbers()[i], kLayers * kReplays + 1) << i;
}

TEST_F(CudaHostCallTest, AnErrorIsToldOnceAndLaterWorkRuns) {
  const auto event = std::move(device_->CreateEvent()).value();
  ASSERT_TRUE(
      stream_->CallOnHost([] { return Status(StatusCode::kInternal, "the host's own"); }).ok());
  ASSERT_TRUE(Layer(*stream_).ok());
  ASSERT_TRUE(stream_->Record(*event).ok());
  EXPECT_EQ(event->Synchronize().message(), "the host's own");
  EXPECT_EQ(calls_, 1);
  EXPECT_TRUE(stream_->Synchronize().ok());
  ASSERT_TRUE(stream_->Record(*event).ok());
  EXPECT_TRUE(event->Synchronize().ok());
}

}  // namespace
}  // namespace sluice::cuda
