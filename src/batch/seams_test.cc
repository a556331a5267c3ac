// The seams of batch/ as their users see them: a sink that sees every layer event in order.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/str_cat.h"
#include "batch/kv_sink_checker_fixture.h"

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

}  // namespace
}  // namespace sluice::batch
