// Capture and replay, as device/device.h and device/graph.h promise them.
#include "contract_fixture.h"

namespace sluice::device {
namespace {

class GraphContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (device_->facts().graphs == GraphSupport::kNone) GTEST_SKIP() << "this device has no graphs";
    in_ = Make(256);
    out_ = Make(256);
  }
  void TearDown() override {
    in_ = Buffer();
    out_ = Buffer();
    ContractTest::TearDown();
  }
  // Two runs and one that needs the first.
  Status Body(Stream& stream) {
    const CopyItem items[] = {{Part(out_, 0, 64), Part(in_, 64, 64)},
                              {Part(out_, 128, 60), Part(in_, 4, 60)},
                              {Part(out_, 64, 64), Part(out_, 0, 64)}};
    return device_->Copy(stream, items);
  }
  Result<std::unique_ptr<Graph>> Capture() {
    return device_->Capture(*stream_, nullptr, [&](Stream& stream) { return Body(stream); });
  }
  ReplayParams Params(const Buffer& source) {
    return {{{"low", Part(source, 0, 100), Part(in_, 0, 100)},
             {"high", Part(source, 100, 156), Part(in_, 100, 156)}}};
  }
  void ExpectOut(int seed) {
    EXPECT_EQ(Read(Part(out_, 0, 64)), Range(64, seed + 64));
    EXPECT_EQ(Read(Part(out_, 64, 64)), Range(64, seed + 64));
    EXPECT_EQ(Read(Part(out_, 128, 60)), Range(60, seed + 4));
    EXPECT_EQ(Read(Part(out_, 188, 68)), std::vector<int>(68, 0));
  }

  Buffer in_, out_;
};
INSTANTIATE_TEST_SUITE_P(Devices, GraphContract, ::testing::ValuesIn(ContractDevices()),
                         [](const auto& device) { return device.param; });

using CaptureContract = ContractTest;
INSTANTIATE_TEST_SUITE_P(Devices, CaptureContract, ::testing::ValuesIn(ContractDevices()),
                         [](const auto& device) { return device.param; });

TEST_P(CaptureContract, WhereThereAreNoGraphsTheBodyIsNotCalled) {
  bool called = false;
  const auto body = [&](Stream&) {
    called = true;
    return OkStatus();
  };
  int opaque = 0;  // no device captures collectives yet, so none looks at it
  auto* const communicator = reinterpret_cast<Communicator*>(&opaque);
  EXPECT_EQ(device_->Capture(*stream_, communicator, body).status().code(),
            StatusCode::kUnimplemented);
  if (device_->facts().graphs == GraphSupport::kNone) {
    EXPECT_EQ(device_->Capture(*stream_, nullptr, body).status().code(),
              StatusCode::kUnimplemented);
  }
  EXPECT_FALSE(called);
}

TEST_P(CaptureContract, NothingIsCapturedWhileEachOpIsChecked) {
  const Backend* const backend = BackendOf(GetParam());
  if (backend == nullptr) GTEST_SKIP() << "not a backend's device";
  const auto checking = std::move(backend->Open({}, 0, {.check_each_op = true})).value();
  EXPECT_EQ(checking->facts().graphs, GraphSupport::kNone);
  const auto stream = std::move(checking->CreateStream()).value();
  EXPECT_EQ(checking->Capture(*stream, nullptr, [](Stream&) { return OkStatus(); }).status().code(),
            StatusCode::kUnimplemented);
}

TEST_P(GraphContract, CapturingDoesNothingAndAReplaySeesFreshParameters) {
  const auto graph = Capture();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Read(out_.view()), std::vector<int>(256, 0));
  for (MemoryKind kind : {MemoryKind::kHost, MemoryKind::kPinned, MemoryKind::kDevice}) {
    for (int seed : {1, 50, 99}) {
      const Buffer numbers = Numbers(256, seed), source = Make(256, kind);
      ASSERT_TRUE(Copy({{source.view(), numbers.view()}}).ok());
      ASSERT_TRUE((*graph)->Replay(*stream_, Params(source)).ok());
      ExpectOut(seed);
    }
  }
}

TEST_P(GraphContract, ReplaysFollowOneAnotherWithoutAWait) {
  const auto graph = Capture();
  ASSERT_TRUE(graph.ok());
  const Buffer source = Make(256, MemoryKind::kHost), kept = Make(50 * 64);
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 0; i < 256; ++i) source.data()[i] = static_cast<std::byte>(round + i);
    ASSERT_TRUE((*graph)->Replay(*stream_, Params(source)).ok());
    ASSERT_TRUE(Copy({{Part(kept, 64 * static_cast<size_t>(round), 64), Part(out_, 64, 64)}}).ok());
  }
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(Read(Part(kept, 64 * static_cast<size_t>(round), 64)), Range(64, round + 64));
  }
}

TEST_P(GraphContract, PinnedMemoryIsReadAndWrittenByEachReplay) {
  if (!device_->facts().pinned_memory) GTEST_SKIP() << "this device pins no memory";
  const Buffer source = Make(3 * 80, MemoryKind::kPinned), target = Make(64, MemoryKind::kPinned);
  const auto graph = device_->Capture(*stream_, nullptr, [&](Stream& stream) {
    const CopyItem items[] = {{Part(in_, 0, 192), source.view(), 3, 64, 80, 64},
                              {Part(out_, 0, 64), Part(in_, 64, 64)},
                              {target.view(), Part(out_, 0, 64)}};
    return device_->Copy(stream, items);
  });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (int seed : {5, 130}) {
    for (size_t i = 0; i < source.bytes(); ++i) source.data()[i] = static_cast<std::byte>(seed + i);
    ASSERT_TRUE((*graph)->Replay(*stream_, {}).ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(Read(target.view()), Range(64, seed + 80));
    EXPECT_EQ(Read(Part(in_, 128, 64)), Range(64, seed + 160));
  }
}

TEST_P(GraphContract, EachReplayCallsTheHostWhereGraphsHoldSuchCalls) {
  if (!device_->facts().pinned_memory) GTEST_SKIP() << "this device pins no memory";
  const Buffer given = Make(256, MemoryKind::kPinned);
  int calls = 0;
  const auto graph = device_->Capture(*stream_, nullptr, [&](Stream& stream) -> Status {
    const CopyItem down{given.view(), in_.view()}, up{out_.view(), given.view()};
    SLUICE_RETURN_IF_ERROR(device_->Copy(stream, {&down, 1}));
    SLUICE_RETURN_IF_ERROR(stream.CallOnHost([&] {
      ++calls;
      for (size_t i = 0; i < 256; ++i)
        given.data()[i] = std::byte(static_cast<int>(given.data()[i]) + 7);
      return OkStatus();
    }));
    return device_->Copy(stream, {&up, 1});
  });
  if (!device_->facts().captures_host_calls) {
    EXPECT_EQ(graph.status().code(), StatusCode::kFailedPrecondition);
    return;
  }
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(calls, 0);
  const Buffer source = Make(256, MemoryKind::kHost), kept = Make(20 * 256);
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < 256; ++i) source.data()[i] = static_cast<std::byte>(round + i);
    ASSERT_TRUE((*graph)->Replay(*stream_, Params(source)).ok());
    const size_t at = 256 * static_cast<size_t>(round);
    ASSERT_TRUE(Copy({{Part(kept, at, 256), out_.view()}}).ok());
  }
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(calls, 20);
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(Read(Part(kept, 256 * static_cast<size_t>(round), 256)), Range(256, round + 7));
  }
}

TEST_P(GraphContract, AReplayWithOtherValuesIsRefusedAndChangesNothing) {
  const auto graph = Capture();
  ASSERT_TRUE(graph.ok());
  const Buffer source = Numbers(256, 3), other = Numbers(256, 80);
  ReplayParams twice = Params(other), unlike = Params(other);
  twice.values[1].name = "low";
  unlike.values[0].source.bytes = 99;
  for (const ReplayParams& bad : {twice, unlike}) {
    EXPECT_EQ((*graph)->Replay(*stream_, bad).code(), StatusCode::kInvalidArgument);
  }
  ASSERT_TRUE((*graph)->Replay(*stream_, Params(source)).ok()) << "the first that is right";
  ReplayParams fewer = Params(other), more = fewer, shorter = fewer, renamed = fewer, moved = fewer;
  fewer.values.pop_back();
  more.values.push_back({"more", Part(other, 0, 4), Part(out_, 200, 4)});
  shorter.values[0].source.bytes = shorter.values[0].destination.bytes = 96;
  renamed.values[1].name = "higher";
  moved.values[0].destination = Part(out_, 0, 100);
  for (const ReplayParams& bad : {fewer, more, shorter, renamed, moved, twice, unlike}) {
    EXPECT_EQ((*graph)->Replay(*stream_, bad).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Read(in_.view()), Range(256, 3));
  ExpectOut(3);
}

TEST_P(GraphContract, AGraphBelongsToItsStream) {
  const auto graph = Capture();
  ASSERT_TRUE(graph.ok());
  const auto other = std::move(device_->CreateStream()).value();
  const Buffer source = Numbers(256, 3);
  EXPECT_EQ((*graph)->Replay(*other, Params(source)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(in_.view()), std::vector<int>(256, 0));
}

TEST_P(GraphContract, AGraphMayGoWhileItsReplayIsUnderWay) {
  auto graph = Capture();
  ASSERT_TRUE(graph.ok());
  const Buffer source = Numbers(256, 21);
  ASSERT_TRUE((*graph)->Replay(*stream_, Params(source)).ok());
  graph->reset();
  ExpectOut(21);
}

TEST_P(GraphContract, WhatCannotBeCapturedIsRefusedAndTheStreamIsAsBefore) {
  const Buffer host = Numbers(64, 1);
  const auto event = std::move(device_->CreateEvent()).value();
  const auto other = std::move(device_->CreateStream()).value();
  const auto refused = [&](const char* what, const CaptureBody& body) {
    const auto graph = device_->Capture(*stream_, nullptr, body);
    EXPECT_EQ(graph.status().code(), StatusCode::kFailedPrecondition)
        << what << ": " << graph.status().message();
    EXPECT_TRUE(stream_->Synchronize().ok()) << what;
    EXPECT_TRUE(Capture().ok()) << what;
  };
  refused("a wait", [](Stream& s) { return s.Synchronize(); });
  refused("an event", [&](Stream& s) { return s.Record(*event); });
  refused("a wait for an event", [&](Stream& s) { return s.Wait(*event); });
  refused("device memory",
          [&](Stream&) { return device_->Allocate(64, MemoryKind::kDevice).status(); });
  refused("a copy from host memory", [&](Stream& s) {
    const CopyItem item = {Part(out_, 0, 64), host.view()};
    return device_->Copy(s, {&item, 1});
  });
  refused("a copy to host memory", [&](Stream& s) {
    const CopyItem item = {host.view(), Part(out_, 0, 64)};
    return device_->Copy(s, {&item, 1});
  });
  for (Stream* inner : {stream_.get(), other.get()}) {
    refused("another capture", [&](Stream&) {
      return device_->Capture(*inner, nullptr, [&](Stream& s) { return Body(s); }).status();
    });
  }
  EXPECT_EQ(Read(out_.view()), std::vector<int>(256, 0));
}

TEST_P(GraphContract, AnErrorOfTheBodyIsReturnedAndNothingOfItIsDone) {
  const auto graph = device_->Capture(*stream_, nullptr, [&](Stream& s) {
    EXPECT_TRUE(Body(s).ok());
    return InvalidArgument("the body's own error");
  });
  EXPECT_EQ(graph.status().message(), "the body's own error");
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Read(out_.view()), std::vector<int>(256, 0));
}

}  // namespace
}  // namespace sluice::device
