#include "device/copy_list.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>

namespace sluice::device {
namespace {

constexpr DeviceId kGpu{DeviceKind::kCuda, 1};

class CopyListTest : public ::testing::Test {
 protected:
  View At(std::array<std::byte, 256>& memory, size_t first, size_t bytes,
          MemoryKind kind = MemoryKind::kDevice) {
    return {memory.data() + first, bytes, kind, kGpu};
  }
  Status Plan(std::initializer_list<CopyItem> items) {
    return PlanCopies(kGpu, std::span(items.begin(), items.size()), &runs_);
  }

  std::array<std::byte, 256> a_{}, b_{};
  std::vector<CopyRun> runs_;
};

TEST_F(CopyListTest, NeighboursThatContinueOneAnotherBecomeOneRun) {
  ASSERT_TRUE(Plan({{At(b_, 0, 16), At(a_, 32, 16)},
                    {At(b_, 16, 8), At(a_, 48, 8)},
                    {At(b_, 24, 8), At(a_, 60, 8)}})
                  .ok());
  ASSERT_EQ(runs_.size(), 2u);
  EXPECT_EQ(runs_[0].row_bytes, 24u);
  EXPECT_EQ(runs_[1].source, a_.data() + 60);
  EXPECT_EQ(runs_[1].batch, 0) << "apart, so they go together";
}

TEST_F(CopyListTest, DifferentKindsOfMemoryAreNotMerged) {
  ASSERT_TRUE(
      Plan({{At(b_, 0, 16), At(a_, 0, 16)}, {At(b_, 16, 16), At(a_, 16, 16, MemoryKind::kPinned)}})
          .ok());
  EXPECT_EQ(runs_.size(), 2u);
}

TEST_F(CopyListTest, RowsWithoutAGapBecomeOneRun) {
  ASSERT_TRUE(Plan({{At(b_, 0, 64), At(a_, 0, 64), 4, 16, 16, 16}}).ok());
  ASSERT_EQ(runs_.size(), 1u);
  EXPECT_EQ(runs_[0].rows, 1u);
  EXPECT_EQ(runs_[0].row_bytes, 64u);
  ASSERT_TRUE(Plan({{At(b_, 0, 64), At(a_, 0, 256), 4, 16, 64, 16}}).ok());
  ASSERT_EQ(runs_.size(), 1u);
  EXPECT_EQ(runs_[0].rows, 4u);
  EXPECT_EQ(runs_[0].source_stride, 64u);
  ASSERT_TRUE(Plan({{At(b_, 0, 256), At(a_, 0, 64), 4, 16, 16, 64}}).ok());
  ASSERT_EQ(runs_.size(), 1u);
  EXPECT_EQ(runs_[0].rows, 4u);
  EXPECT_EQ(runs_[0].destination_stride, 64u);
}

TEST_F(CopyListTest, WhatReadsAnEarlierResultGoesInALaterBatch) {
  ASSERT_TRUE(Plan({{At(b_, 0, 16), At(a_, 0, 16)},
                    {At(b_, 64, 16), At(a_, 64, 16)},
                    {At(a_, 128, 16), At(b_, 0, 16)},
                    {At(a_, 0, 16), At(b_, 128, 16)}})
                  .ok());
  ASSERT_EQ(runs_.size(), 4u);
  EXPECT_EQ(runs_[0].batch, 0);
  EXPECT_EQ(runs_[1].batch, 0);
  EXPECT_EQ(runs_[2].batch, 1) << "reads what the first writes";
  EXPECT_EQ(runs_[3].batch, 1);
}

TEST_F(CopyListTest, WritingWhatAnEarlierRunReadsWaits) {
  ASSERT_TRUE(Plan({{At(b_, 0, 16), At(a_, 0, 16)}, {At(a_, 8, 16), At(b_, 64, 16)}}).ok());
  ASSERT_EQ(runs_.size(), 2u);
  EXPECT_EQ(runs_[1].batch, 1);
}

TEST_F(CopyListTest, OverlappingNeighboursAreNotMerged) {
  // In order: the second reads what the first has written.
  ASSERT_TRUE(Plan({{At(a_, 4, 4), At(a_, 0, 4)}, {At(a_, 8, 4), At(a_, 4, 4)}}).ok());
  ASSERT_EQ(runs_.size(), 2u);
  EXPECT_EQ(runs_[1].batch, 1);
}

// Against every pair of runs, for lists in which about half of the items meet another.
TEST_F(CopyListTest, BatchesAreThoseThatComparingEveryPairGives) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return random() % n; };
  const auto meet = [](const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
  };
  int merged = 0, batches = 0;
  for (int list = 0; list < 2000; ++list) {
    std::vector<CopyItem> items;
    for (size_t i = 0, n = 1 + below(12); i < n; ++i) {
      const size_t bytes = 1 + below(12);
      auto& to = below(3) == 0 ? a_ : b_;
      CopyItem item{At(to, below(240), bytes), At(a_, below(240), bytes)};
      if (i > 0 && below(3) == 0) {  // continue the one before
        const CopyItem& last = items.back();
        item = {{last.destination.data + last.source.bytes, 4, MemoryKind::kDevice, kGpu},
                {last.source.data + last.source.bytes, 4, MemoryKind::kDevice, kGpu}};
      }
      // One that overlaps itself is refused.
      if (meet(item.destination.data, item.source.bytes, item.source.data, item.source.bytes)) {
        --i;
        continue;
      }
      items.push_back(item);
    }
    ASSERT_TRUE(PlanCopies(kGpu, items, &runs_).ok());
    merged += static_cast<int>(items.size() - runs_.size());
    batches += runs_.back().batch;
    // Each run is the next item, or some that continue one another, and touches nothing of its
    // batch; the first of a batch could not have gone with the batch before.
    size_t at = 0;
    const auto together = [&](const CopyRun& a, const CopyRun& b) {
      return !meet(a.destination, a.row_bytes, b.destination, b.row_bytes) &&
             !meet(a.destination, a.row_bytes, b.source, b.row_bytes) &&
             !meet(a.source, a.row_bytes, b.destination, b.row_bytes);
    };
    for (size_t i = 0; i < runs_.size(); ++i) {
      size_t bytes = 0;
      const CopyItem& first = items[at];
      ASSERT_EQ(runs_[i].destination, first.destination.data);
      while (bytes < runs_[i].row_bytes) bytes += items[at++].source.bytes;
      ASSERT_EQ(bytes, runs_[i].row_bytes);
      bool joins = true;
      for (size_t j = 0; j < i; ++j) {
        if (runs_[j].batch == runs_[i].batch) {
          ASSERT_TRUE(together(runs_[j], runs_[i]));
        }
        CopyRun head = runs_[i];
        head.row_bytes = first.source.bytes;
        if (runs_[j].batch == runs_[i].batch - 1) joins = joins && together(runs_[j], head);
      }
      const bool opens = i > 0 && runs_[i].batch != runs_[i - 1].batch;
      if (opens) {
        ASSERT_FALSE(joins) << "list " << list << ", run " << i;
      }
    }
    ASSERT_EQ(at, items.size());
  }
  EXPECT_GT(merged, 1000);
  EXPECT_GT(batches, 1000);
}

TEST_F(CopyListTest, NothingIsCheckedOfAnItemWithoutBytes) {
  View nowhere;
  nowhere.device = {DeviceKind::kXpu, 7};
  ASSERT_TRUE(Plan({{View{}, nowhere}, {View{}, nowhere, 0, 16, 16, 16}}).ok());
  EXPECT_TRUE(runs_.empty());
}

TEST_F(CopyListTest, HostMemoryOfTheCpuIsWelcome) {
  View host = At(a_, 0, 16, MemoryKind::kHost);
  host.device = {};
  EXPECT_TRUE(Plan({{At(b_, 0, 16), host}}).ok());
  EXPECT_TRUE(Plan({{host, At(b_, 0, 16)}}).ok());
}

TEST_F(CopyListTest, WrongItemsAreRefused) {
  View other = At(a_, 0, 16);
  other.device.index = 0;
  View of_cpu = At(a_, 0, 16);  // the CPU's, but not the host's
  of_cpu.device = {};
  View null = At(a_, 0, 16);
  null.data = nullptr;
  constexpr size_t kHuge = std::numeric_limits<size_t>::max() / 2;
  const CopyItem wrong[] = {
      {At(b_, 0, 16), other},
      {other, At(b_, 0, 16)},
      {At(b_, 0, 16), of_cpu},
      {of_cpu, At(b_, 0, 16)},
      {At(b_, 0, 16), null},
      {null, At(b_, 0, 16)},
      {At(b_, 0, 15), At(a_, 0, 16)},
      {At(b_, 0, 64), At(a_, 0, 64), 4, 16, 15, 16},       // rows of the source overlap
      {At(b_, 0, 64), At(a_, 0, 64), 4, 16, 16, 15},       // ... of the destination
      {At(b_, 0, 64), At(a_, 0, 63), 4, 16, 16, 16},       // the source ends too early
      {At(b_, 0, 63), At(a_, 0, 64), 4, 16, 16, 16},       // the destination does
      {At(b_, 0, 64), At(a_, 0, 64), 4, 16, kHuge, kHuge}  // the size overflows
  };
  for (const CopyItem& item : wrong) {
    EXPECT_EQ(Plan({item}).code(), StatusCode::kInvalidArgument) << (&item - wrong);
  }
}

TEST_F(CopyListTest, AnItemThatOverlapsItselfIsRefused) {
  const CopyItem wrong[] = {{At(a_, 0, 16), At(a_, 15, 16)},
                            {At(a_, 15, 16), At(a_, 0, 16)},
                            {At(a_, 0, 52), At(a_, 0, 40), 4, 4, 12, 16},
                            {At(a_, 4, 52), At(a_, 0, 52), 4, 4, 16, 16}};  // rows between rows
  for (const CopyItem& item : wrong) {
    EXPECT_EQ(Plan({item}).code(), StatusCode::kInvalidArgument) << (&item - wrong);
  }
  EXPECT_TRUE(Plan({{At(a_, 0, 16), At(a_, 16, 16)}, {At(a_, 16, 16), At(a_, 0, 16)}}).ok());
}

TEST_F(CopyListTest, AnItemThatGoesWhereItLiesIsDone) {
  ASSERT_TRUE(
      Plan({{At(a_, 0, 16), At(a_, 0, 16)}, {At(a_, 0, 52), At(a_, 0, 52), 4, 4, 16, 16}}).ok());
  EXPECT_TRUE(runs_.empty());
}

}  // namespace
}  // namespace sluice::device
