#include "engine/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "exec/executor_fixture.h"

namespace sluice::engine {
namespace {

class StepLoopTest : public ::testing::Test {
 protected:
  StepLoopTest() : workers_(1, MakeContext()) {
    schedule::SchedulerOptions options;
    options.max_num_seqs = exec::kTestSlots;
    options.max_batch_tokens = 64;
    options.max_model_len = exec::kTestLength;
    auto scheduler = schedule::Scheduler::Create(options, tiny_.store->groups());
    EXPECT_TRUE(scheduler.ok()) << scheduler.status().message();
    loop_ = std::make_unique<StepLoop>(*tiny_.executor, std::move(scheduler).value(), metrics_);
  }
  // A request of one token, with what tells its sink.
  static std::shared_ptr<RequestState> MakeRequest(RequestId id, Sink sink) {
    auto request = std::make_shared<RequestState>();
    request->id = id;
    request->request.n = request->unfinished = 1;
    request->sink = std::move(sink);
    request->choices.emplace_back(text::Detokenizer(nullptr, false, {}), StopMatcher({}, false));
    return request;
  }
  static schedule::SequenceSpec MakeSpec(RequestId id, int32_t token = 2, int max_tokens = 1) {
    schedule::SequenceSpec spec;
    spec.id = SequenceOf(id, 0);
    spec.prompt = {1, token, 3};
    spec.max_tokens = max_tokens;
    return spec;
  }
  TextContext MakeContext() {
    TextContext context;
    context.metrics = &metrics_;
    context.ended = [this](RequestId) { ++ended_; };
    return context;
  }

  exec::TinyExecutor tiny_{"llama"};
  Metrics metrics_{"tiny"};
  std::atomic<int> ended_ = 0;
  TextWorkers workers_;
  std::unique_ptr<StepLoop> loop_;
};

TEST_F(StepLoopTest, CallsRunOnTheLoop) {
  loop_->Start(&workers_);
  std::thread::id id;
  EXPECT_TRUE(loop_->Call([&](schedule::Scheduler&) { id = std::this_thread::get_id(); }));
  EXPECT_NE(id, std::thread::id());
  EXPECT_NE(id, std::this_thread::get_id());
}

TEST_F(StepLoopTest, AfterStopNothingIsTaken) {
  loop_->Start(&workers_);
  loop_->Stop();
  EXPECT_FALSE(loop_->Call([](schedule::Scheduler&) { FAIL(); }));
  EXPECT_FALSE(loop_->Add(std::make_shared<RequestState>(), {}));
  loop_->Cancel(1);
  loop_->Stop();
}

// A call that the loop has not come to when it stops must return too.
TEST_F(StepLoopTest, CallsThatRaceStopAllReturn) {
  loop_->Start(&workers_);
  std::atomic<int> ran = 0, accepted = 0;
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      while (loop_->Call([&](schedule::Scheduler&) { ++ran; })) ++accepted;
    });
  }
  while (accepted < 20) std::this_thread::yield();
  loop_->Stop();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(ran, accepted);
}

// What /health reports: failures in a row, none once a step succeeds.
TEST_F(StepLoopTest, FailedStepsAreCountedUntilOneSucceeds) {
  loop_->Start(&workers_);
  const auto serve = [&](RequestId id, int32_t token) {
    EXPECT_TRUE(loop_->Add(MakeRequest(id, [](TextDelta&&) {}), {MakeSpec(id, token, 0)}));
    while (ended_ < static_cast<int>(id)) std::this_thread::yield();
    return loop_->state().consecutive_failures;
  };
  constexpr int32_t kNoToken = 1 << 20;  // the executor refuses the plan
  EXPECT_EQ(serve(1, kNoToken), 1);
  EXPECT_EQ(serve(2, kNoToken), 2);
  EXPECT_EQ(serve(3, 2), 0);
  EXPECT_EQ(serve(4, kNoToken), 1);
  loop_->Stop();
}

// A runner that counts what is given back.
class GivingRunner : public exec::StepRunner {
 public:
  explicit GivingRunner(exec::StepRunner& runner) : runner_(runner) {}
  const exec::RunnerInfo& Info() const override { return runner_.Info(); }
  exec::RunnerTotals Totals() const override { return runner_.Totals(); }
  uint64_t WeightsVersion() const override { return runner_.WeightsVersion(); }
  Result<exec::Step> Launch(batch::BatchPlan* plan, batch::KvSink* sink) override {
    return runner_.Launch(plan, sink);
  }
  void GiveBackKv(int32_t group, int32_t first, int32_t count) override {
    EXPECT_LT(group, static_cast<int32_t>(Info().kv_groups.size()));
    EXPECT_LE(first + count, Info().kv_groups[group].num_blocks);
    blocks += count;
    runner_.GiveBackKv(group, first, count);
  }
  std::atomic<int> blocks = 0;

 private:
  exec::StepRunner& runner_;
};

TEST_F(StepLoopTest, WithoutWorkMemoryOfFreeBlocksIsGivenBackOnce) {
  schedule::SchedulerOptions options;
  options.max_num_seqs = exec::kTestSlots;
  options.max_batch_tokens = 64;
  options.max_model_len = exec::kTestLength;
  options.prefix_cache = false;
  auto scheduler = schedule::Scheduler::Create(options, tiny_.store->groups());
  GivingRunner runner(*tiny_.executor);
  StepLoop loop(runner, std::move(scheduler).value(), metrics_, nullptr, nullptr, 500,
                std::chrono::milliseconds(1));
  loop.Start(&workers_);
  const auto nothing = [&] { return loop.Call([](schedule::Scheduler&) {}); };
  EXPECT_TRUE(nothing());
  EXPECT_EQ(runner.blocks, 0) << "nothing was touched";
  int all = 0;
  for (const batch::KvGroup& group : tiny_.store->groups()) all += group.num_blocks;
  for (const RequestId id : {1, 2}) {
    EXPECT_TRUE(loop.Add(MakeRequest(id, [](TextDelta&&) {}), {MakeSpec(id, 2, 0)}));
    while (runner.blocks < static_cast<int>(id) * all) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(runner.blocks, static_cast<int>(id) * all);
  }
  loop.Stop();
}

TEST_F(StepLoopTest, MemoryOfWhatWasCachedIsGivenBackWhenItIsDropped) {
  schedule::SchedulerOptions options;
  options.max_num_seqs = exec::kTestSlots;
  options.max_batch_tokens = 64;
  options.max_model_len = exec::kTestLength;
  auto scheduler = schedule::Scheduler::Create(options, tiny_.store->groups());
  GivingRunner runner(*tiny_.executor);
  StepLoop loop(runner, std::move(scheduler).value(), metrics_, nullptr, nullptr, 500,
                std::chrono::milliseconds(1));
  loop.Start(&workers_);
  int all = 0;
  for (const batch::KvGroup& group : tiny_.store->groups()) all += group.num_blocks;
  schedule::SequenceSpec spec = MakeSpec(1, 4, 0);
  spec.prompt.assign(40, 4);
  EXPECT_TRUE(loop.Add(MakeRequest(1, [](TextDelta&&) {}), {spec}));
  while (runner.blocks == 0) std::this_thread::yield();
  EXPECT_TRUE(loop.Call([](schedule::Scheduler&) {}));  // behind all that is given back
  const int without_cached = runner.blocks;
  EXPECT_LT(without_cached, all);
  int32_t dropped = 0;
  EXPECT_TRUE(loop.Call([&](schedule::Scheduler& of) { dropped = of.ClearPrefixCache(); }));
  EXPECT_GT(dropped, 0);
  while (runner.blocks < without_cached + all) std::this_thread::yield();
  EXPECT_EQ(runner.blocks, without_cached + all);
  loop.Stop();
}

// A runner whose guesses may have failed.
class FailingDrafts : public exec::StepRunner {
 public:
  FailingDrafts(exec::StepRunner& runner, bool failed) : runner_(runner), failed_(failed) {}
  const exec::RunnerInfo& Info() const override { return runner_.Info(); }
  exec::RunnerTotals Totals() const override {
    exec::RunnerTotals totals = runner_.Totals();
    totals.drafts_failed = failed_;
    return totals;
  }
  uint64_t WeightsVersion() const override { return runner_.WeightsVersion(); }
  Result<exec::Step> Launch(batch::BatchPlan* plan, batch::KvSink* sink) override {
    return runner_.Launch(plan, sink);
  }

 private:
  exec::StepRunner& runner_;
  const bool failed_;
};

// What a sequence verified before the failure was known is no matter; then it is one of no drafts.
TEST_F(StepLoopTest, NothingIsVerifiedWhereGuessesFail) {
  for (const bool failed : {false, true}) {
    exec::TinyExecutor guessing("mimo", {.device = "cpu", .draft_tokens = 2});
    schedule::SchedulerOptions options;
    options.max_num_seqs = exec::kTestSlots;
    options.max_batch_tokens = 64;
    options.max_model_len = exec::kTestLength;
    options.max_draft_tokens = 2;
    FailingDrafts runner(*guessing.executor, failed);
    auto scheduler = schedule::Scheduler::Create(options, guessing.store->groups());
    StepLoop loop(runner, std::move(scheduler).value(), metrics_);
    loop.Start(&workers_);
    schedule::SequenceSpec spec = MakeSpec(failed ? 2 : 1, 4, 60);
    spec.device_drafts = 2;
    const auto text = TextModelImpl::Make(files::OpenModel(guessing.files.path).value());
    const auto request = MakeRequest(failed ? 2 : 1, [](TextDelta&&) {});
    request->choices[0].detokenizer = text::Detokenizer((*text)->tokenizer(), false, {});
    EXPECT_TRUE(loop.Add(request, {spec}));
    while (ended_ < (failed ? 2 : 1)) std::this_thread::yield();
    uint64_t drafted = 0;
    loop.Call([&](schedule::Scheduler& s) { drafted = s.Stats().drafted; });
    loop.Stop();
    EXPECT_EQ(drafted > 6, !failed) << drafted;
  }
}

TEST_F(StepLoopTest, PromptsFromBeforeAnUpdateOfTheWeightsAreComputedAgain) {
  loop_->Start(&workers_);
  const auto hits_after = [&](RequestId id) {
    schedule::SequenceSpec spec = MakeSpec(id, 2, 0);
    spec.prompt.assign(2 * exec::kTestBlock + 1, 5);
    EXPECT_TRUE(loop_->Add(MakeRequest(id, [](TextDelta&&) {}), {std::move(spec)}));
    while (ended_ < static_cast<int>(id)) std::this_thread::yield();
    uint64_t hits = 0;
    EXPECT_TRUE(
        loop_->Call([&](schedule::Scheduler& scheduler) { hits = scheduler.Stats().prefix_hits; }));
    return hits;
  };
  EXPECT_EQ(hits_after(1), 0u);
  EXPECT_EQ(hits_after(2), uint64_t{2} * exec::kTestBlock);
  EXPECT_TRUE(loop_->Call([&](schedule::Scheduler&) {
    const auto stream = std::move(tiny_.device->CreateStream().value());
    const Status status =
        tiny_.model->parameters().Update(*tiny_.device, *stream, "embedding", *tiny_.files.tensors);
    EXPECT_TRUE(status.ok()) << status.message();
  }));
  EXPECT_EQ(hits_after(3), uint64_t{2} * exec::kTestBlock);
  EXPECT_EQ(hits_after(4), uint64_t{4} * exec::kTestBlock);
  loop_->Stop();
}

// A handle is a place in a table, which ended requests must not make grow.
TEST_F(StepLoopTest, TheHandleOfAnEndedRequestIsGivenToTheNext) {
  loop_->SetPaused(true);
  loop_->Start(&workers_);
  for (RequestId id = 1; id <= 3; ++id) {
    EXPECT_TRUE(loop_->Add(MakeRequest(id, [](TextDelta&&) {}), {MakeSpec(id)}));
    int32_t handle = -1;
    loop_->Call([&](schedule::Scheduler& scheduler) {
      handle = scheduler.Find(SequenceOf(id, 0))->spec.handle;
    });
    EXPECT_EQ(handle, 0) << id;
    loop_->Cancel(id);
  }
  loop_->Stop();
}

// What waited for nothing before it came is not stuck since then.
TEST_F(StepLoopTest, ARequestThatAnIdleLoopHasNotTakenYetIsStuckNoLongerThanItWaits) {
  const int64_t before = NowMicros();
  // No token is drawn: the request has no tokenizer for one.
  EXPECT_TRUE(loop_->Add(MakeRequest(1, [](TextDelta&&) {}), {MakeSpec(1, 2, 0)}));
  const int64_t stuck_ms = loop_->state().stuck_ms;
  EXPECT_LE(stuck_ms, (NowMicros() - before) / 1000);
  loop_->Start(&workers_);
  loop_->Stop();
}

TEST_F(StepLoopTest, ARequestThatArrivedButWasNeverStartedIsToldOfTheEnd) {
  // The loop is stopped inside a command, with the request behind it in the inbox.
  loop_->Start(&workers_);
  std::atomic<bool> entered = false, release = false;
  std::thread caller([&] {
    loop_->Call([&](schedule::Scheduler&) {
      entered = true;
      while (!release) std::this_thread::yield();
    });
  });
  while (!entered) std::this_thread::yield();
  std::atomic<int> events = 0;
  FinishReason finish = FinishReason::kNone;
  const auto request = MakeRequest(1, [&](TextDelta&& delta) {
    finish = delta.finish;
    ++events;
  });
  EXPECT_TRUE(loop_->Add(request, {MakeSpec(1)}));
  EXPECT_EQ(loop_->state().waiting, 1);
  std::thread stopper([&] { loop_->Stop(); });
  while (loop_->Add(std::make_shared<RequestState>(), {})) std::this_thread::yield();
  release = true;
  stopper.join();
  caller.join();
  workers_.Stop();
  EXPECT_EQ(events, 1);
  EXPECT_EQ(finish, FinishReason::kCancelled);
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(loop_->state().waiting, 0);
}

}  // namespace
}  // namespace sluice::engine
