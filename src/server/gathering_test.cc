#include "server/gathering.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/str_cat.h"
#include "server/fake_engine.h"
#include "server/fake_exchange.h"

namespace sluice::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GatheringTest : public ::testing::Test {
 protected:
  void Start(size_t requests) {
    StartGathering(
        std::shared_ptr<Engine>(std::shared_ptr<void>(), &engine_), std::vector<Request>(requests),
        [](const std::vector<std::vector<float>>& vectors, const Usage& usage) {
          std::string body;
          for (const auto& vector : vectors) body += StrCat(vector.at(0), ",");
          return StrCat(body, " ", usage.prompt_tokens);
        },
        options_, &totals_, &deadlines_, exchange_);
  }
  static TextDelta Vector(float first) {
    TextDelta delta;
    delta.embedding = {first};
    delta.finish = FinishReason::kLength;
    delta.last = true;
    delta.usage.prompt_tokens = 3;
    return delta;
  }

  FakeEngine engine_;
  TokenTotals totals_;
  Deadlines deadlines_;
  GatheringOptions options_;
  std::shared_ptr<FakeExchange> exchange_ = std::make_shared<FakeExchange>();
};

TEST_F(GatheringTest, VectorsStandInTheOrderOfTheirTexts) {
  Start(3);
  engine_.EmitDelta(2, Vector(2));
  engine_.EmitDelta(0, Vector(0));
  EXPECT_FALSE(exchange_->replied);
  engine_.EmitDelta(1, Vector(1));
  ASSERT_TRUE(exchange_->replied);
  EXPECT_EQ(exchange_->reply.body, "0,1,2, 9");
  EXPECT_EQ(totals_.prompt, 9);
}

TEST_F(GatheringTest, OneFailureIsTheAnswerAndEndsTheOthers) {
  Start(3);
  engine_.EmitDelta(0, Vector(0));
  TextDelta failed;
  failed.finish = FinishReason::kError;
  failed.last = true;
  failed.error = InvalidArgument("it is too long", "input");
  engine_.EmitDelta(1, failed);
  EXPECT_EQ(exchange_->reply.status, 400);
  EXPECT_THAT(exchange_->reply.body, HasSubstr("it is too long"));
  EXPECT_THAT(engine_.cancelled, ElementsAre(1, 2, 3));
}

TEST_F(GatheringTest, ARefusalEndsWhatWasSubmitted) {
  engine_.submit_status = InvalidArgument("it is too long", "input");
  engine_.submits_before_failure = 2;
  Start(3);
  EXPECT_EQ(exchange_->reply.status, 400);
  EXPECT_THAT(engine_.cancelled, ElementsAre(1, 2));
}

TEST_F(GatheringTest, AFullQueueRefusesWhatHasNotBegun) {
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  Start(3);
  EXPECT_EQ(exchange_->reply.status, 429);
}

TEST_F(GatheringTest, MoreThanTheQueueTakesFollowsAsPlacesBecomeFree) {
  engine_.max_queue = 4;
  Start(5);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(engine_.submitted.size(), std::min<size_t>(5, i + 2));  // half is left to others
    EXPECT_FALSE(exchange_->replied);
    engine_.EmitDelta(i, Vector(static_cast<float>(i)));
  }
  ASSERT_TRUE(exchange_->replied);
  EXPECT_EQ(exchange_->reply.body, "0,1,2,3,4, 15");
}

TEST_F(GatheringTest, WhatFindsNoPlaceIsSentAgainWhenOneOfItsOwnEnds) {
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  engine_.submits_before_failure = 2;
  Start(3);
  EXPECT_EQ(engine_.submitted.size(), 2u);
  engine_.submits_before_failure = 1;
  engine_.EmitDelta(1, Vector(1));
  ASSERT_EQ(engine_.submitted.size(), 3u);
  engine_.EmitDelta(0, Vector(0));
  engine_.EmitDelta(2, Vector(2));
  ASSERT_TRUE(exchange_->replied);
  EXPECT_EQ(exchange_->reply.body, "0,1,2, 9");
}

TEST_F(GatheringTest, WhereOthersFillTheQueueItIsSentAgainAfterAWhile) {
  std::atomic<size_t> submitted = 0;
  engine_.on_submit = [&](size_t) { ++submitted; };
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  engine_.submits_before_failure = 1;
  Start(2);
  engine_.EmitDelta(0, Vector(0));
  EXPECT_FALSE(exchange_->replied);
  engine_.submits_before_failure = 1;
  while (submitted < 2) std::this_thread::yield();
  engine_.EmitDelta(1, Vector(1));
  while (!exchange_->replied) std::this_thread::yield();
  EXPECT_EQ(exchange_->reply.body, "0,1, 6");
}

TEST_F(GatheringTest, WhatTheServerCancelsIsToldAsThat) {
  Start(2);
  TextDelta cancelled;
  cancelled.finish = FinishReason::kCancelled;
  cancelled.last = true;
  engine_.EmitDelta(0, cancelled);
  EXPECT_EQ(exchange_->reply.status, 503);
  EXPECT_THAT(exchange_->reply.body, HasSubstr("it shuts down, or the model is unloaded"));
}

TEST_F(GatheringTest, AClientThatLeavesEndsAll) {
  Start(2);
  exchange_->disconnect();
  EXPECT_THAT(engine_.cancelled, ElementsAre(1, 2));
  engine_.EmitDelta(0, Vector(0));
  EXPECT_FALSE(exchange_->replied);
}

}  // namespace
}  // namespace sluice::server
