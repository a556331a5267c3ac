// The seams of batch/ as their users see them: a sink that sees every layer event in order, and a
// mask source that bans a token.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "batch/kv_sink_checker.h"
#include "batch/mask_source.h"

namespace sluice::batch {
namespace {

class RecordingSink : public KvSink {
 public:
  Status Begin(const BatchPlan& plan) override {
    calls.push_back(StrCat("begin ", plan.step));
    return status;
  }
  Status LayerWritten(int layer, int group, EventHandle event) override {
    calls.push_back(StrCat("layer ", layer, " group ", group, " event ", event));
    return status;
  }
  Status Finish() override {
    calls.push_back("finish");
    return status;
  }
  void Abort() override { calls.push_back("abort"); }

  std::vector<std::string> calls;
  Status status;
};

TEST(KvSink, SeesEveryLayerOfEachForward) {
  RecordingSink sink;
  KvSinkChecker checker(2, &sink);
  for (uint64_t step = 1; step <= 2; ++step) {
    BatchPlan plan;
    plan.step = step;
    ASSERT_TRUE(checker.Begin(plan).ok());
    ASSERT_TRUE(checker.LayerWritten(0, 1, 77).ok());
    ASSERT_TRUE(checker.LayerWritten(1, 0, 0).ok());
    ASSERT_TRUE(checker.Finish().ok());
  }
  EXPECT_EQ(sink.calls,
            (std::vector<std::string>{
                "begin 1", "layer 0 group 1 event 77", "layer 1 group 0 event 0", "finish",
                "begin 2", "layer 0 group 1 event 77", "layer 1 group 0 event 0", "finish"}));
}

TEST(KvSink, AnyOtherOrderIsAnError) {
  RecordingSink sink;
  KvSinkChecker checker(2, &sink);
  const StatusCode wrong = StatusCode::kFailedPrecondition;
  EXPECT_EQ(checker.LayerWritten(0, 0, 0).code(), wrong);  // outside a forward
  EXPECT_EQ(checker.Finish().code(), wrong);
  checker.Abort();
  EXPECT_TRUE(sink.calls.empty());

  ASSERT_TRUE(checker.Begin({}).ok());
  EXPECT_EQ(checker.Begin({}).code(), wrong);              // a second Begin
  EXPECT_EQ(checker.LayerWritten(1, 0, 0).code(), wrong);  // a layer left out
  ASSERT_TRUE(checker.LayerWritten(0, 0, 0).ok());
  EXPECT_EQ(checker.LayerWritten(0, 0, 0).code(), wrong);  // a layer twice
  EXPECT_EQ(checker.Finish().code(), wrong);               // a layer missing
  ASSERT_TRUE(checker.LayerWritten(1, 0, 0).ok());
  EXPECT_EQ(checker.LayerWritten(2, 0, 0).code(), wrong);  // a layer too many
  ASSERT_TRUE(checker.Finish().ok());
  EXPECT_EQ(checker.Finish().code(), wrong);  // a second Finish
}

TEST(KvSink, IsUsableAgainAfterAnAbortAndAfterAnError) {
  RecordingSink sink;
  KvSinkChecker checker(1, &sink);
  ASSERT_TRUE(checker.Begin({}).ok());
  checker.Abort();
  EXPECT_EQ(sink.calls.back(), "abort");
  ASSERT_TRUE(checker.Begin({}).ok());
  sink.status = Status(StatusCode::kIo, "the peer is gone");
  EXPECT_EQ(checker.LayerWritten(0, 0, 0).code(), StatusCode::kIo);
  checker.Abort();
  sink.status = OkStatus();
  ASSERT_TRUE(checker.Begin({}).ok());
  EXPECT_TRUE(checker.open());
}

// Bans one token of one sequence and allows all else.
class BanningMask : public MaskSource {
 public:
  bool HasMask(const PlanEntry& entry) override { return entry.sequence == 7; }
  Status Fill(const PlanEntry&, int row, std::span<uint32_t> allowed) override {
    for (uint32_t& word : allowed) word = ~0u;
    allowed[banned / 32] &= ~(1u << (banned % 32));
    rows.push_back(row);
    return OkStatus();
  }
  int banned = 37;
  std::vector<int> rows;
};

// What exec does just before sampling: argmax over what the mask leaves.
int MaskedArgmax(MaskSource* masks, const PlanEntry& entry, int row,
                 const std::vector<float>& logits) {
  std::vector<uint32_t> allowed((logits.size() + 31) / 32, ~0u);
  if (masks->HasMask(entry)) {
    EXPECT_TRUE(masks->Fill(entry, row, allowed).ok());
  }
  int best = -1;
  for (int i = 0; i < static_cast<int>(logits.size()); ++i) {
    if ((allowed[i / 32] >> (i % 32) & 1) == 0) continue;
    if (best < 0 || logits[i] > logits[best]) best = i;
  }
  return best;
}

TEST(MaskSource, BansATokenForItsOwnSequenceOnly) {
  BanningMask masks;
  std::vector<float> logits(50, 0.0f);
  logits[37] = 2.0f;
  logits[40] = 1.0f;
  EXPECT_EQ(MaskedArgmax(&masks, {.sequence = 7}, 0, logits), 40);
  EXPECT_EQ(MaskedArgmax(&masks, {.sequence = 8}, 0, logits), 37);
  EXPECT_EQ(MaskedArgmax(&masks, {.sequence = 7}, 1, logits), 40);  // a row of a verify entry
  EXPECT_EQ(masks.rows, (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace sluice::batch
