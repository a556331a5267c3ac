// Memory, copies and events, as device/device.h promises them.
#include <limits>

#include "contract_fixture.h"

namespace sluice::device {
namespace {

using DeviceContract = ContractTest;
INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract, ::testing::ValuesIn(ContractDevices()),
                         [](const auto& device) { return device.param; });

constexpr MemoryKind kKinds[] = {MemoryKind::kHost, MemoryKind::kPinned, MemoryKind::kDevice};

TEST_P(DeviceContract, TheFactsAreThoseOfTheDevice) {
  const DeviceFacts& facts = device_->facts();
  if (const Backend* backend = BackendOf(GetParam())) {
    EXPECT_EQ(facts.id.kind, backend->kind());
  }
  EXPECT_FALSE(facts.name.empty());
  EXPECT_GT(facts.compute_units, 0);
  const auto memory = device_->Memory();
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_GT(memory->free_bytes, 0u);
  EXPECT_LE(memory->free_bytes, memory->total_bytes);
}

TEST_P(DeviceContract, MemoryIsZeroedAndAlignedAlsoWhenItWasUsedBefore) {
  for (int round = 0; round < 2; ++round) {
    for (size_t bytes : {size_t{1}, size_t{257}, size_t{3} << 20}) {
      for (MemoryKind kind : kKinds) {
        const Buffer buffer = Make(bytes, kind);
        EXPECT_EQ(buffer.bytes(), bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
        ASSERT_EQ(Read(buffer.view()), std::vector<int>(bytes, 0));
        const Buffer dirt = Numbers(bytes, 90);
        ASSERT_TRUE(Copy({{buffer.view(), dirt.view()}}).ok());
        ASSERT_TRUE(stream_->Synchronize().ok());
      }
    }
  }
}

TEST_P(DeviceContract, TheViewSaysWhatTheMemoryIs) {
  const DeviceFacts& facts = device_->facts();
  EXPECT_EQ(Make(8, MemoryKind::kHost).view().memory, MemoryKind::kHost);
  EXPECT_EQ(Make(8, MemoryKind::kPinned).view().memory,
            facts.pinned_memory ? MemoryKind::kPinned : MemoryKind::kHost);
  EXPECT_EQ(Make(8, MemoryKind::kDevice).view().memory,
            facts.device_memory ? MemoryKind::kDevice : MemoryKind::kHost);
  EXPECT_EQ(Make(8, MemoryKind::kDevice).view().device, facts.id);
  const auto shared = device_->Allocate(8, MemoryKind::kShared);
  if (facts.device_memory) {
    EXPECT_EQ(shared.status().code(), StatusCode::kUnimplemented);
  } else {
    EXPECT_EQ(shared->view().memory, MemoryKind::kHost);
  }
}

TEST_P(DeviceContract, NoBytesGiveAViewThatIsNotNull) {
  for (MemoryKind kind : kKinds) {
    const Buffer nothing = Make(0, kind);
    EXPECT_NE(nothing.data(), nullptr);
    EXPECT_EQ(nothing.bytes(), 0u);
  }
}

TEST_P(DeviceContract, MoreMemoryThanThereIsIsAnErrorAndTheNextFits) {
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  for (size_t bytes : {kMost, kMost - 255, device_->facts().memory_bytes * 2}) {
    const auto failed = device_->Allocate(bytes, MemoryKind::kDevice);
    EXPECT_EQ(failed.status().code(), StatusCode::kOutOfMemory) << failed.status().message();
    EXPECT_EQ(Read(Make(16).view()), std::vector<int>(16, 0));
  }
  EXPECT_EQ(device_->Allocate(kMost, MemoryKind::kHost).status().code(), StatusCode::kOutOfMemory);
}

TEST_P(DeviceContract, CopiesBetweenAllKindsOfMemory) {
  for (MemoryKind from : kKinds) {
    for (MemoryKind to : kKinds) {
      const Buffer numbers = Numbers(1000, 7), source = Make(1000, from), target = Make(1000, to);
      ASSERT_TRUE(Copy({{source.view(), numbers.view()}, {target.view(), source.view()}}).ok());
      if (target.view().memory == MemoryKind::kPinned) {
        ASSERT_TRUE(stream_->Synchronize().ok());
      }
      if (target.view().memory != MemoryKind::kDevice) {
        EXPECT_EQ(std::memcmp(target.data(), numbers.data(), 1000), 0) << "when the call returns";
      }
      EXPECT_EQ(Read(target.view()), Range(1000, 7));
    }
  }
}

TEST_P(DeviceContract, ASourceInHostMemoryHasBeenReadWhenTheCallReturns) {
  constexpr size_t kLarge = size_t{8} << 20;
  const Buffer large = Make(kLarge, MemoryKind::kHost), small = Make(12, MemoryKind::kHost);
  const Buffer to_large = Make(kLarge), to_small = Make(12);
  for (int round = 0; round < 300; ++round) {
    std::memset(small.data(), round & 255, 12);
    ASSERT_TRUE(Copy({{to_small.view(), small.view()}}).ok());
    std::memset(small.data(), 0x5a, 12);
  }
  std::memset(large.data(), 5, kLarge);
  ASSERT_TRUE(Copy({{to_large.view(), large.view()}}).ok());
  std::memset(large.data(), 9, kLarge);
  EXPECT_EQ(Read(to_small.view()), std::vector<int>(12, 299 & 255));
  EXPECT_EQ(Read(to_large.view()), std::vector<int>(kLarge, 5));
}

TEST_P(DeviceContract, RowsWithStridesOfEveryAlignment) {
  constexpr size_t kBytes = 512, kRows = 10;
  for (MemoryKind kind : kKinds) {
    const Buffer numbers = Numbers(kBytes, 3), zeros = Make(kBytes, MemoryKind::kHost);
    const Buffer source = Make(kBytes, kind), target = Make(kBytes);
    for (size_t shift : {0, 1, 4, 16}) {
      for (size_t row : {1, 12, 16}) {
        const Buffer dense = Make(kRows * row, MemoryKind::kHost);
        const View from = Part(source, shift, kBytes - shift);
        const View to = Part(target, shift, kBytes - shift);
        const size_t strides[] = {row, 17, 20, 24, 48};
        for (const size_t read : strides) {
          for (const size_t written : strides) {
            ASSERT_TRUE(Copy({{source.view(), numbers.view()},
                              {target.view(), zeros.view()},
                              {to, from, kRows, row, read, written},
                              {dense.view(), to, kRows, row, written, row}})
                            .ok());
            std::vector<int> expected(kBytes, 0);
            for (size_t i = 0; i < kRows * row; ++i) {
              const int value = static_cast<int>((3 + shift + i / row * read + i % row) & 255);
              expected[shift + i / row * written + i % row] = value;
              ASSERT_EQ(static_cast<int>(dense.data()[i]), value) << shift << " " << row;
            }
            ASSERT_EQ(Read(target.view()), expected)
                << row << " bytes at " << shift << ", strides " << read << " and " << written;
          }
        }
      }
    }
  }
}

TEST_P(DeviceContract, ItemsAreDoneInOrderHoweverTheyAreJoined) {
  const Buffer numbers = Numbers(256, 0), a = Make(256), b = Make(256);
  ASSERT_TRUE(Copy({{a.view(), numbers.view()},
                    {Part(b, 0, 16), Part(a, 16, 16)},
                    {Part(b, 16, 16), Part(a, 32, 16)},     // continues the one before
                    {Part(b, 100, 16), Part(b, 0, 16)},     // reads what was just written
                    {Part(b, 0, 16), Part(a, 64, 16)},      // writes what was just read
                    {Part(b, 101, 13), Part(a, 201, 13)}})  // and over it
                  .ok());
  EXPECT_EQ(Read(Part(b, 0, 16)), Range(16, 64));
  EXPECT_EQ(Read(Part(b, 16, 16)), Range(16, 32));
  EXPECT_EQ(Read(Part(b, 100, 1)), Range(1, 16));
  EXPECT_EQ(Read(Part(b, 101, 13)), Range(13, 201));
  EXPECT_EQ(Read(Part(b, 114, 2)), Range(2, 30));
}

TEST_P(DeviceContract, AnItemReadsWhatAnEarlierOneWroteToTheHost) {
  constexpr size_t kBytes = size_t{4} << 20;
  const Buffer numbers = Numbers(kBytes, 5), a = Make(kBytes), b = Make(kBytes);
  for (MemoryKind kind : {MemoryKind::kHost, MemoryKind::kPinned}) {
    for (size_t bytes : {kBytes, size_t{48}}) {
      const Buffer between = Make(kBytes, kind);
      ASSERT_TRUE(Copy({{a.view(), numbers.view()},
                        {between.view(), a.view()},
                        {Part(b, 0, bytes), Part(between, kBytes - bytes, bytes)}})
                      .ok());
      EXPECT_EQ(Read(Part(b, 0, bytes)), Range(bytes, 5 + static_cast<int>(kBytes - bytes)));
    }
  }
}

TEST_P(DeviceContract, ACopyThatOverlapsItselfIsRefused) {
  for (MemoryKind kind : kKinds) {
    const Buffer numbers = Numbers(96, 1), memory = Make(96, kind);
    ASSERT_TRUE(Copy({{memory.view(), numbers.view()}}).ok());
    const CopyItem good = {Part(memory, 64, 16), Part(memory, 0, 16)};
    for (const CopyItem& bad : {CopyItem{Part(memory, 0, 32), Part(memory, 31, 32)},
                                CopyItem{Part(memory, 31, 32), Part(memory, 0, 32)},
                                CopyItem{Part(memory, 0, 60), Part(memory, 0, 60), 4, 4, 12, 16},
                                CopyItem{Part(memory, 4, 60), Part(memory, 0, 60), 4, 4, 16, 16}}) {
      EXPECT_EQ(Copy({good, bad}).code(), StatusCode::kInvalidArgument);
    }
    EXPECT_EQ(Read(memory.view()), Range(96, 1)) << "copied before a refusal";
    EXPECT_TRUE(Copy({{Part(memory, 8, 40), Part(memory, 8, 40)}}).ok()) << "where it lies";
    EXPECT_EQ(Read(memory.view()), Range(96, 1));
    EXPECT_TRUE(Copy({{Part(memory, 32, 32), Part(memory, 0, 32)}}).ok()) << "neighbours";
    EXPECT_EQ(Read(Part(memory, 32, 32)), Range(32, 1));
  }
}

TEST_P(DeviceContract, ABadItemIsRefusedAndNothingIsCopied) {
  const Buffer a = Numbers(8, 1), b = Make(8);
  const View null = {nullptr, 8, MemoryKind::kHost, device_->facts().id};
  View foreign = b.view(), foreign_source = b.view();
  foreign.device = foreign_source.device = {DeviceKind::kXpu, 77};
  for (const CopyItem& bad :
       {CopyItem{null, a.view()}, CopyItem{b.view(), null}, CopyItem{Part(b, 0, 7), a.view()},
        CopyItem{foreign, a.view()}, CopyItem{b.view(), foreign_source}}) {
    EXPECT_EQ(Copy({{b.view(), a.view()}, bad}).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Read(b.view()), std::vector<int>(8, 0)) << "copied before a refusal";
  }
}

TEST_P(DeviceContract, AnItemOfZeroBytesIsSkippedBeforeAnyCheck) {
  View nowhere;
  nowhere.device = {DeviceKind::kXpu, 77};
  EXPECT_TRUE(Copy({{View{}, nowhere}}).ok());
  EXPECT_TRUE(Copy({}).ok());
}

TEST_P(DeviceContract, EventsOrderStreams) {
  const auto event = std::move(device_->CreateEvent()).value();
  EXPECT_TRUE(event->Done()) << "never recorded";
  EXPECT_TRUE(event->Synchronize().ok());
  EXPECT_TRUE(stream_->Wait(*event).ok());
  const auto other = std::move(device_->CreateStream()).value();
  constexpr size_t kBytes = size_t{8} << 20;
  const Buffer numbers = Numbers(kBytes, 1), a = Make(kBytes), b = Make(kBytes);
  ASSERT_TRUE(Copy({{a.view(), numbers.view()}, {b.view(), a.view()}}).ok());
  ASSERT_TRUE(stream_->Record(*event).ok());
  ASSERT_TRUE(other->Wait(*event).ok());
  const Buffer last = Make(kBytes);
  const CopyItem item = {last.view(), b.view()};
  ASSERT_TRUE(device_->Copy(*other, {&item, 1}).ok());
  ASSERT_TRUE(other->Synchronize().ok());
  EXPECT_TRUE(event->Synchronize().ok());
  EXPECT_TRUE(event->Done());
  EXPECT_EQ(Read(last.view()), Range(kBytes, 1));
}

TEST_P(DeviceContract, TheHostIsCalledInTheOrderOfTheStream) {
  if (!device_->facts().pinned_memory) GTEST_SKIP() << "this device pins no memory";
  constexpr size_t kBytes = size_t{4} << 20;
  const Buffer numbers = Numbers(kBytes, 1), a = Make(kBytes);
  const Buffer between = Make(kBytes, MemoryKind::kPinned);
  ASSERT_TRUE(Copy({{a.view(), numbers.view()}}).ok());
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(Copy({{between.view(), a.view()}}).ok());
    ASSERT_TRUE(stream_
                    ->CallOnHost([&] {
                      for (size_t i = 0; i < kBytes; ++i)
                        between.data()[i] = std::byte(static_cast<int>(between.data()[i]) + 1);
                      return OkStatus();
                    })
                    .ok());
    ASSERT_TRUE(Copy({{a.view(), between.view()}}).ok());
  }
  EXPECT_EQ(Read(a.view()), Range(kBytes, 5));
}

TEST_P(DeviceContract, AnErrorOfACalledHostIsToldToWhoeverWaits) {
  const auto event = std::move(device_->CreateEvent()).value();
  const auto fails = [] { return Status(StatusCode::kInternal, "the host's own error"); };
  Status told = stream_->CallOnHost(fails);
  if (told.ok()) {
    ASSERT_TRUE(stream_->Record(*event).ok());
    told = event->Synchronize();
    if (told.ok()) told = stream_->Synchronize();
  }
  EXPECT_EQ(told.message(), "the host's own error");
  (void)stream_->Synchronize();
  // It was told, and the stream is as before.
  bool called = false;
  ASSERT_TRUE(stream_
                  ->CallOnHost([&] {
                    called = true;
                    return OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream_->Record(*event).ok());
  EXPECT_TRUE(event->Synchronize().ok());
  EXPECT_TRUE(called);
}

}  // namespace
}  // namespace sluice::device
