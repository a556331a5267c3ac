#include "batch/mask_set.h"

#include <gtest/gtest.h>

namespace sluice::batch {
namespace {

BatchPlan Plan() {
  BatchPlan plan;
  plan.tokens.assign(6, 0);
  plan.logits_rows = {{0, -1, RowPurpose::kSample},
                      {1, 3, RowPurpose::kScore},
                      {2, -1, RowPurpose::kSample},
                      {3, 4, RowPurpose::kVerify},
                      {4, -1, RowPurpose::kVerify}};
  plan.entries = {{.logits_begin = 0, .logits_count = 1},
                  {.logits_begin = 1, .logits_count = 2, .masked = true},
                  {.logits_begin = 3, .logits_count = 2, .masked = true},
                  {.logits_begin = 5, .logits_count = 0, .masked = true}};
  return plan;
}

TEST(MaskSet, RowsOfMaskedEntriesThatDrawWait) {
  std::vector<int32_t> rows = {99};
  WaitingRows(Plan(), &rows);
  EXPECT_EQ(rows, (std::vector<int32_t>{2, 3, 4}));
  WaitingRows({}, &rows);
  EXPECT_TRUE(rows.empty());
}

TEST(MaskSet, OnlyTheMasksThatAreWaitedForAreTaken) {
  constexpr int64_t kVocab = 33;
  std::vector<int32_t> waiting;
  WaitingRows(Plan(), &waiting);
  const MaskSet good{.rows = waiting, .words = std::vector<uint32_t>(6), .late = {2, 4}};
  EXPECT_TRUE(CheckMasks(good, waiting, kVocab).ok());
  const auto refused = [&](auto spoil) {
    MaskSet bad = good;
    spoil(bad);
    return CheckMasks(bad, waiting, kVocab).code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](MaskSet& m) { m.rows.pop_back(); }));
  EXPECT_TRUE(refused([](MaskSet& m) { m.rows[0] = 1; }));
  EXPECT_TRUE(refused([](MaskSet& m) { m.words.pop_back(); }));
  EXPECT_TRUE(refused([](MaskSet& m) { m.late = {1}; }));
  EXPECT_TRUE(refused([](MaskSet& m) { m.late = {4, 2}; }));
  EXPECT_TRUE(refused([](MaskSet& m) { m.late = {2, 2}; }));
}

}  // namespace
}  // namespace sluice::batch
