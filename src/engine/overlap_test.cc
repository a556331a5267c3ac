// The step loop on a device that works beside the host: a step is launched before the one before it
// is committed, and every answer is that of the CPU, whose steps come one after another. Cancels,
// stops and errors of the device in between leave no block behind.
#include <gtest/gtest.h>

#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <thread>

#include "base/source_dir_fixture.h"
#include "engine/step.h"
#include "exec/executor_fixture.h"
#include "sluice/limits.h"
#include "sluice/logits_processor.h"

namespace sluice::engine {
namespace {

struct RunnerAnswer {
  std::vector<int32_t> ids;
  std::vector<double> logprobs;
  std::vector<float> all;  // whole distributions, one behind the other
  FinishReason finish = FinishReason::kNone;
  Status error;
  friend bool operator==(const RunnerAnswer& a, const RunnerAnswer& b) {
    return a.ids == b.ids && a.logprobs == b.logprobs && a.all == b.all && a.finish == b.finish;
  }
};

// What it adds depends on all that the answer and its prompt have.
class Shifting : public LogitsProcessor {
 public:
  void Process(const Row& row, std::span<float> logits) override {
    size_t sum = row.answer.size();
    for (const int32_t id : row.prompt) sum += static_cast<size_t>(id);
    for (const int32_t id : row.answer) sum += 3 * static_cast<size_t>(id);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] += static_cast<float>((i + sum) % 5);
    logits[(sum * 7) % logits.size()] = -std::numeric_limits<float>::infinity();
  }
};

class Rig {
 public:
  // `attached`: drafts that a sequence takes from DraftUntil; without them `drafts` come from what
  // was drawn before. `counted`: the slots whose penalties may overlap, at most. `forced`: drafts
  // that are found in what answers are held to.
  explicit Rig(const std::string& device, int group_blocks = 0, bool drafts = false,
               int attached = 0, int counted = exec::kTestSlots, int forced = 0)
      : tiny_("llama", {.device = device, .group_blocks = group_blocks}) {
    schedule::SchedulerOptions options;
    options.max_num_seqs = exec::kTestSlots;
    options.max_batch_tokens = 32;
    options.counted_slots = std::min(counted, tiny_.executor->Info().counted_slots);
    options.max_model_len = exec::kTestLength;
    options.prefix_cache = false;
    options.max_draft_tokens = std::max(attached, forced);
    std::unique_ptr<Drafter> drafter;
    if (drafts) {
      options.max_draft_tokens = 8;
      drafter = std::make_unique<Drafter>(
          speculate::MakeProposer("ngram", {exec::kTestSlots, 2 * exec::kTestLength}),
          DrafterOptions{.slots = exec::kTestSlots,
                         .sequence_tokens = exec::kTestLength,
                         .adapt = false,
                         .wait_us = 1'000'000});
    }
    blocks_ = tiny_.store->groups()[0].num_blocks;
    loop_ = std::make_unique<StepLoop>(
        *tiny_.executor,
        std::move(schedule::Scheduler::Create(options, tiny_.store->groups()).value()), metrics_,
        std::move(drafter), nullptr, /*draft_wait_us=*/1'000'000);
    TextContext context;
    context.forced_drafts = forced;
    context.text = text_.get();
    context.metrics = &metrics_;
    context.max_model_len = context.longest_sequence = exec::kTestLength;
    context.end_ids = {2};
    context.constraints = &constraints_;
    context.masks = &loop_->masks();
    context.add = [this](auto request, auto specs) {
      return loop_->Add(std::move(request), std::move(specs));
    };
    context.stop = [this](auto id, int choice) { loop_->StopChoice(id, choice); };
    context.ended = [this](RequestId) {
      std::lock_guard lock(mutex_);
      ++ended_;
      one_ended_.notify_all();
    };
    workers_ = std::make_unique<TextWorkers>(1, std::move(context));
    loop_->Start(workers_.get());
  }
  ~Rig() {
    loop_->Stop();
    workers_->Stop();
  }

  void Submit(RequestId id, bool cancel = false) {
    auto request = std::make_shared<RequestState>();
    request->id = id;
    std::vector<int32_t> prompt;
    for (RequestId i = 0; i < 1 + id * 7 % 40; ++i) {
      prompt.push_back(static_cast<int32_t>(3 + (id * 31 + i * 17) % 120));
    }
    const bool repeats = id % 4 == 0;  // and so does what a greedy answer to it draws
    for (size_t i = 7; repeats && i < prompt.size(); ++i) prompt[i] = prompt[i - 7];
    request->request.prompt = std::move(prompt);
    request->request.max_tokens = repeats ? 50 : static_cast<int>(5 + id * 11 % 30);
    request->request.logprobs = 0;
    request->request.sampling.temperature = id % 3 == 0 || repeats ? 0.0 : 0.9;
    request->request.sampling.seed = 50 + id;
    if (id % 4 == 1) request->request.sampling.repetition_penalty = 1.3;
    if (id % 6 == 1) {
      request->request.choice = {"this text", "this text and that", "that text", "another one"};
    }
    if (id % 7 == 3) request->request.logits_processor = std::make_shared<Shifting>();
    if (id % 8 == 6)
      request->request.all_logprobs = id == 6 ? Distribution::kRaw : Distribution::kFiltered;
    if (id % 5 == 2) request->request.stop_token_ids = {40, 50, 60, 70, 80, 90, 100};
    request->sink = [this, id, cancel](TextDelta&& delta) {
      std::lock_guard lock(mutex_);
      RunnerAnswer& answer = answers_[id];
      for (const TokenInfo& token : delta.tokens) {
        answer.ids.push_back(token.id);
        answer.logprobs.push_back(token.logprob.value_or(1));
        answer.all.insert(answer.all.end(), token.all_logprobs.begin(), token.all_logprobs.end());
      }
      if (delta.finish != FinishReason::kNone) answer.finish = delta.finish;
      if (!delta.error.ok()) answer.error = delta.error;
      if (cancel && !delta.last) loop_->Cancel(id);
    };
    workers_->Start(std::move(request));
  }
  // All of them wait before the first step.
  void SubmitAtOnce(std::span<const RequestId> ids) {
    loop_->SetPaused(true);
    for (const RequestId id : ids) Submit(id);
    while (loop_->state().waiting < static_cast<int64_t>(ids.size())) std::this_thread::yield();
    loop_->SetPaused(false);
  }
  void WaitFor(int ended) {
    std::unique_lock lock(mutex_);
    one_ended_.wait(lock, [&] { return ended_ >= ended; });
  }
  std::map<RequestId, RunnerAnswer> answers() {
    std::lock_guard lock(mutex_);
    return answers_;
  }
  // Once the steps in flight have ended.
  int64_t BlocksInUse() {
    int64_t used = -1;
    for (int i = 0; i < 2; ++i) {  // the second comes after a step that has seen the first
      loop_->Call([&](schedule::Scheduler& scheduler) {
        scheduler.CheckInvariants();
        used = blocks_ - scheduler.kv().pool(0).available();
      });
    }
    return used;
  }
  // Attaches, until all have ended, drafts of what the requests answered before, some wrong.
  schedule::SchedulerStats DraftUntil(int ended, const std::map<RequestId, RunnerAnswer>& known) {
    schedule::SchedulerStats stats;
    for (int turn = 0;; ++turn) {
      loop_->Call([&](schedule::Scheduler& scheduler) {
        for (const schedule::Sequence* sequence : scheduler.running()) {
          const std::vector<int32_t>& ids = known.at(sequence->spec.id / limits::kChoicesMax).ids;
          const size_t from = static_cast<size_t>(sequence->drawn());
          if (from + 3 > ids.size()) continue;
          const int32_t last = turn % 3 == 0 ? 77 : ids[from + 2];
          const schedule::SequenceId id = sequence->spec.id;
          if (!scheduler.AttachDrafts(id, std::vector{ids[from], ids[from + 1], last}))
            scheduler.AwaitCommit(id);
        }
        stats = scheduler.Stats();
      });
      std::lock_guard lock(mutex_);
      if (ended_ >= ended) return stats;
    }
  }
  schedule::SchedulerStats Stats() {
    schedule::SchedulerStats stats;
    loop_->Call([&](schedule::Scheduler& scheduler) { stats = scheduler.Stats(); });
    return stats;
  }
  exec::TinyExecutor& tiny() { return tiny_; }
  StepLoop::State state() const { return loop_->state(); }

 private:
  exec::TinyExecutor tiny_;
  int64_t blocks_ = 0;
  Metrics metrics_{"tiny"};
  std::unique_ptr<TextModelImpl> text_ = std::move(
      TextModelImpl::Make(files::OpenText(SourceDir() + "/tests/golden/models/llama").value())
          .value());
  const Constraints constraints_{text_->tokenizer(), 320, {2}};
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::map<RequestId, RunnerAnswer> answers_;  // guarded by mutex_
  int ended_ = 0;                              // guarded by mutex_
  std::unique_ptr<TextWorkers> workers_;
  std::unique_ptr<StepLoop> loop_;
};

constexpr int kRequests = 24;

std::map<RequestId, RunnerAnswer> Answers(const std::string& device, int blocks = 0,
                                          int counted = exec::kTestSlots) {
  Rig rig(device, blocks, false, 0, counted);
  for (RequestId id = 1; id <= kRequests; ++id) rig.Submit(id);
  rig.WaitFor(kRequests);
  EXPECT_EQ(rig.BlocksInUse(), 0);
  if (device == "pinned") {  // a step was waited for while another lay behind it, mostly
    const ops::QueuedDevice::Counts counts = rig.tiny().queued().counts();
    EXPECT_GT(counts.overlapped_waits, rig.state().steps / 2);
  }
  return rig.answers();
}

TEST(Overlap, AnswersAreThoseOfADeviceWithoutIt) {
  const std::map<RequestId, RunnerAnswer> expected = Answers("cpu");
  int stopped = 0;
  for (const auto& [id, answer] : expected) {
    EXPECT_FALSE(answer.ids.empty()) << id;
    EXPECT_EQ(answer.all.empty(), id % 8 != 6) << id;
    stopped += answer.finish == FinishReason::kStop;
  }
  EXPECT_GT(stopped, 0);
  for (const char* device : {"pinned", "plain", "nographs", "chunks", "noattention"}) {
    EXPECT_TRUE(Answers(device) == expected) << device;
  }
  EXPECT_TRUE(Answers("pinned", 14) == expected);  // little memory: some are recomputed
  for (const int counted : {0, 2})
    EXPECT_TRUE(Answers("pinned", 0, counted) == expected) << counted;
}

// Alone, so that no other sequence's step lies behind it; its answer is that of steps one by one.
TEST(Overlap, ASequenceWithPenaltiesIsInTwoStepsInFlight) {
  std::map<RequestId, RunnerAnswer> answers[2];
  for (const int counted : {0, 1}) {
    Rig rig("pinned", 0, false, 0, counted);
    rig.Submit(5);
    rig.WaitFor(1);
    answers[counted] = rig.answers();
    const ops::QueuedDevice::Counts counts = rig.tiny().queued().counts();
    EXPECT_GT(rig.state().steps, 10u);
    if (counted == 0) {
      EXPECT_EQ(counts.overlapped_waits, 0);
    } else {
      EXPECT_GT(counts.overlapped_waits, rig.state().steps / 2);
    }
  }
  EXPECT_TRUE(answers[0] == answers[1]);
}

TEST(Overlap, DraftsOfConstrainedAnswersAreVerifiedUnderTheirMasks) {
  const std::map<RequestId, RunnerAnswer> expected = Answers("cpu");
  for (const char* device : {"cpu", "pinned"}) {
    Rig rig(device, 0, false, 3);
    for (RequestId id = 1; id <= kRequests; ++id) rig.Submit(id);
    const schedule::SchedulerStats stats = rig.DraftUntil(kRequests, expected);
    EXPECT_TRUE(rig.answers() == expected) << device;
    EXPECT_GT(stats.accepted, 0u);
    EXPECT_EQ(rig.BlocksInUse(), 0);
  }
}

// A constrained answer sits out while a step of it is in flight, and then verifies at once what it
// is bound to draw.
TEST(Overlap, ForcedDraftsChangeNoAnswer) {
  const std::map<RequestId, RunnerAnswer> expected = Answers("cpu");
  for (const char* device : {"cpu", "pinned", "plain", "nographs"}) {
    for (const int blocks : {0, 14}) {
      Rig rig(device, blocks, /*drafts=*/blocks == 0, 0, exec::kTestSlots, /*forced=*/8);
      for (RequestId id = 1; id <= kRequests; ++id) rig.Submit(id);
      rig.WaitFor(kRequests);
      EXPECT_TRUE(rig.answers() == expected) << device << blocks;
      EXPECT_EQ(rig.BlocksInUse(), 0);
      const schedule::SchedulerStats stats = rig.Stats();
      EXPECT_GT(stats.forced_accepted, 10u) << device;
      EXPECT_LE(stats.forced_accepted, stats.forced);
      EXPECT_LE(stats.forced, stats.drafted);
    }
  }
}

// Each step of a run in turn, in the model and in sampling.
TEST(Overlap, WhateverStepFailsTheOthersAnswerAsBefore) {
  const std::map<RequestId, RunnerAnswer> expected = Answers("pinned");
  int failures = 0;
  for (const char* op : {"attention", "sample", "set_counts", "keep_drawn"}) {
    for (int nth = 1; nth < 60; nth += 3) {
      Rig rig("pinned");
      rig.tiny().queued().FailOp(op, nth);
      for (RequestId id = 1; id <= 7; ++id) rig.Submit(id);
      rig.WaitFor(7);
      for (const auto& [id, answer] : rig.answers()) {
        failures += answer.finish == FinishReason::kError;
        if (answer.finish != FinishReason::kError) {
          EXPECT_TRUE(answer == expected.at(id)) << op << nth;
        }
      }
      EXPECT_EQ(rig.BlocksInUse(), 0) << op << nth;
      rig.tiny().queued().FailOp("none");  // in place of one that came to too few calls
      rig.Submit(13);
      rig.WaitFor(8);
      EXPECT_TRUE(rig.answers()[13] == expected.at(13)) << op << nth;
    }
  }
  EXPECT_GT(failures, 40);
}

// A sequence with drafts to come waits for its own step, the others overlap, and no answer changes.
TEST(Overlap, DraftsChangeNoAnswer) {
  const std::map<RequestId, RunnerAnswer> expected = Answers("cpu");
  for (const char* device : {"cpu", "pinned", "plain", "nographs"}) {
    for (const int blocks : {0, 14}) {
      Rig rig(device, blocks, /*drafts=*/true);
      for (RequestId id = 1; id <= kRequests; ++id) rig.Submit(id);
      rig.WaitFor(kRequests);
      EXPECT_TRUE(rig.answers() == expected) << device << blocks;
      EXPECT_EQ(rig.BlocksInUse(), 0);
      const schedule::SchedulerStats stats = rig.Stats();
      EXPECT_GT(stats.accepted, 5u) << device;
      EXPECT_GT(stats.drafted, stats.accepted) << device;
      EXPECT_EQ(stats.preemptions > 0, blocks > 0) << device;
      if (device != std::string("pinned") || blocks > 0) continue;
      EXPECT_GT(rig.tiny().queued().counts().overlapped_waits, rig.state().steps / 4);
    }
  }
}

// Each of the first steps fails once, with drafts in some of them and others launched behind.
TEST(Overlap, AStepWithDraftsThatFailsEndsItsRequestsAlone) {
  for (int op = 1; op < 60; op += 7) {
    Rig rig("pinned", 0, /*drafts=*/true);
    rig.tiny().queued().FailOp("attention", op);
    for (RequestId id = 1; id <= 6; ++id) rig.Submit(id);
    rig.WaitFor(6);
    EXPECT_EQ(rig.BlocksInUse(), 0);
    rig.Submit(7);
    rig.WaitFor(7);
    EXPECT_NE(rig.answers()[7].finish, FinishReason::kError) << op;
  }
}

TEST(Overlap, CancelledRequestsLeaveNothingBehindAndTheOthersAlone) {
  const std::map<RequestId, RunnerAnswer> expected = Answers("cpu");
  for (const bool drafts : {false, true}) {
    Rig rig("pinned", 0, drafts);
    for (RequestId id = 1; id <= kRequests; ++id) {
      rig.Submit(id);
      rig.Submit(1000 + id, /*cancel=*/true);
    }
    rig.WaitFor(2 * kRequests);
    EXPECT_EQ(rig.BlocksInUse(), 0);
    std::map<RequestId, RunnerAnswer> answers = rig.answers();
    std::erase_if(answers, [](const auto& item) { return item.first > 1000; });
    EXPECT_TRUE(answers == expected) << drafts;
  }
}

TEST(Overlap, AFailingStepEndsItsRequestsAndTheLoopGoesOn) {
  Rig rig("pinned");
  rig.Submit(1);
  rig.WaitFor(1);
  const RunnerAnswer before = rig.answers()[1];
  rig.tiny().queued().FailOp("attention", 9);
  for (RequestId id = 2; id <= 6; ++id) rig.Submit(id);
  rig.WaitFor(6);
  int failed = 0;
  for (const auto& [id, answer] : rig.answers()) failed += answer.finish == FinishReason::kError;
  EXPECT_GT(failed, 0);
  EXPECT_EQ(rig.BlocksInUse(), 0);
  Rig fresh("pinned");
  fresh.Submit(1);
  fresh.WaitFor(1);
  EXPECT_TRUE(fresh.answers()[1] == before);
}

// Requests that wait are not put behind a step that will fail because the one before it has.
TEST(Overlap, AFailureReachesTheStepsInFlightAlone) {
  Rig rig("pinned");
  rig.tiny().queued().FailOp("attention", 5);
  std::vector<RequestId> ids;
  for (RequestId i = 0; i < kRequests; ++i) ids.push_back(3 + 6 * i);  // none waits for masks
  rig.SubmitAtOnce(ids);
  rig.WaitFor(kRequests);
  int failed = 0;
  for (const auto& [id, answer] : rig.answers()) failed += answer.finish == FinishReason::kError;
  EXPECT_EQ(failed, 5);  // those of the third step and the fourth
  EXPECT_EQ(rig.BlocksInUse(), 0);
}

TEST(Overlap, FailuresAreCountedWithTheirTimeUntilAStepIsWell) {
  Rig rig("pinned");
  rig.tiny().queued().FailOp("attention");
  rig.Submit(1);
  rig.WaitFor(1);
  const RunnerAnswer failed = rig.answers()[1];
  EXPECT_EQ(failed.finish, FinishReason::kError);
  EXPECT_EQ(failed.error.code(), StatusCode::kDevice);
  EXPECT_EQ(failed.error.message(),
            "step 1, which computed this request, failed; the log of the program says why");
  EXPECT_GT(rig.state().consecutive_failures, 0);
  EXPECT_LT(rig.state().failed_ms, 3'600'000);  // not since the machine was started
  rig.Submit(2);
  rig.WaitFor(2);
  EXPECT_EQ(rig.state().consecutive_failures, 0);
  EXPECT_EQ(rig.state().failed_ms, 0);
}

TEST(Overlap, StoppingTheLoopEndsStepsInFlight) {
  for (int i = 0; i < 20; ++i) {
    Rig rig("pinned");
    for (RequestId id = 1; id <= 8; ++id) rig.Submit(id);
    rig.WaitFor(i % 3);
  }
}

}  // namespace
}  // namespace sluice::engine
