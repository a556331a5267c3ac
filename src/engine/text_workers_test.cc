#include "engine/text_workers.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "base/clock.h"
#include "base/source_dir_fixture.h"
#include "engine/health.h"
#include "files/model_files.h"

namespace sluice::engine {
namespace {

constexpr int64_t kLaterUs = 1000 * (kTextStuckMsMax + 1000);

// Workers whose requests end at once, with one event, because nobody takes their sequences.
class TextWorkersTest : public testing::Test {
 protected:
  std::unique_ptr<TextWorkers> Make(int threads) {
    TextContext context;
    context.text = text_.get();
    context.metrics = &metrics_;
    context.max_model_len = context.longest_sequence = 64;
    context.add = [](auto, auto) { return false; };
    context.stop = [](RequestId, int) {};
    context.ended = [](RequestId) {};
    return std::make_unique<TextWorkers>(threads, std::move(context));
  }

  static std::shared_ptr<RequestState> MakeRequest(RequestId id, Sink sink) {
    auto state = std::make_shared<RequestState>();
    state->id = id;
    state->request.prompt = std::vector<int32_t>{5, 6};
    state->sink = std::move(sink);
    return state;
  }

  const std::unique_ptr<TextModelImpl> text_ =
      TextModelImpl::Make(files::OpenText(SourceDir() + "/tests/golden/models/llama").value())
          .value();
  Metrics metrics_{"llama"};
};

TEST_F(TextWorkersTest, WorkersWithNothingToDoAreNotStuck) {
  const auto workers = Make(2);
  EXPECT_EQ(workers->StuckMs(NowMicros() + kLaterUs), 0);
  std::promise<void> ended;
  workers->Start(MakeRequest(0, [&](TextDelta&&) { ended.set_value(); }));
  ended.get_future().wait();
  workers->Stop();
  EXPECT_EQ(workers->StuckMs(NowMicros() + kLaterUs), 0);
}

TEST_F(TextWorkersTest, OneThatNeverEndsIsSeenWhateverTheOtherDoes) {
  const auto workers = Make(2);
  std::promise<void> entered, leave, other;
  const int64_t before = NowMicros();
  workers->Start(MakeRequest(0, [&](TextDelta&&) {
    entered.set_value();
    leave.get_future().wait();
  }));
  entered.get_future().wait();
  workers->Start(MakeRequest(1, [&](TextDelta&&) { other.set_value(); }));
  other.get_future().wait();

  EXPECT_LE(workers->StuckMs(NowMicros()), (NowMicros() - before) / 1000);
  const int64_t stuck_ms = workers->StuckMs(NowMicros() + kLaterUs);
  EXPECT_GE(stuck_ms, kLaterUs / 1000);
  EXPECT_FALSE(HealthOf({}, {.stuck_ms = stuck_ms}, false).ok);

  leave.set_value();
  workers->Stop();
  EXPECT_EQ(workers->StuckMs(NowMicros() + kLaterUs), 0);
}

// However short each piece of work is, requests that nobody takes are told.
TEST_F(TextWorkersTest, RequestsThatWaitUntakenAreSeen) {
  const auto workers = Make(1);
  EXPECT_EQ(workers->UntakenMs(NowMicros() + kLaterUs), 0);
  std::promise<void> entered, leave;
  workers->Start(MakeRequest(0, [&](TextDelta&&) {
    entered.set_value();
    leave.get_future().wait();
  }));
  entered.get_future().wait();
  // It was taken, and nothing waits behind it.
  EXPECT_EQ(workers->UntakenMs(NowMicros() + kLaterUs), 0);
  const int64_t before = NowMicros();
  workers->Start(MakeRequest(1, [](TextDelta&&) {}));
  workers->Start(MakeRequest(2, [](TextDelta&&) {}));
  const int64_t now = NowMicros();
  EXPECT_LE(workers->UntakenMs(now), (now - before) / 1000);
  EXPECT_GE(workers->UntakenMs(now + kLaterUs), kLaterUs / 1000);
  leave.set_value();
  workers->Stop();
  EXPECT_EQ(workers->UntakenMs(NowMicros() + kLaterUs), 0);
}

TEST_F(TextWorkersTest, ClientsTakeTurns) {
  const auto workers = Make(1);
  std::promise<void> entered, leave;
  workers->Start(MakeRequest(0, [&](TextDelta&&) {
    entered.set_value();
    leave.get_future().wait();
  }));
  entered.get_future().wait();
  std::string order;  // of the only text worker, until it has stopped
  RequestId id = 1;
  for (const char client : {'a', 'a', 'a', 'b'}) {
    auto request = MakeRequest(id++, [&order, client](TextDelta&&) { order += client; });
    request->request.client = client;
    workers->Start(std::move(request));
  }
  leave.set_value();
  workers->Stop();
  EXPECT_EQ(order, "abaa");
}

// Nothing that waits makes a hang look younger.
TEST_F(TextWorkersTest, WhatIsQueuedBehindAHangIsNoSignOfLife) {
  const auto workers = Make(1);
  std::promise<void> entered, leave;
  workers->Start(MakeRequest(0, [&](TextDelta&&) {
    entered.set_value();
    leave.get_future().wait();
  }));
  entered.get_future().wait();
  const int64_t then = NowMicros() + kLaterUs;
  const int64_t stuck_ms = workers->StuckMs(then);
  for (RequestId id = 1; id < 4; ++id) workers->Start(MakeRequest(id, [](TextDelta&&) {}));
  EXPECT_EQ(workers->StuckMs(then), stuck_ms);
  leave.set_value();
  workers->Stop();
}

}  // namespace
}  // namespace sluice::engine
