// The scheduler's plans on the executor: a Commit that comes one step late, drafts, forks and
// preemption give the tokens and log-probs of the plain loop, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "exec/executor_fixture.h"
#include "mirror_runner.h"
#include "schedule/scheduler.h"

namespace sluice {
namespace {

using batch::BatchPlan;
using batch::StepResult;
using schedule::FinishReason;
using schedule::SequenceSpec;

struct Outcome {
  std::vector<int32_t> ids;
  std::vector<float> logprobs, scores;
  FinishReason finish = FinishReason::kNone;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
using Outcomes = std::map<schedule::SequenceId, Outcome>;

struct Setting {
  std::string model = "llama";
  int blocks = 0;  // of every pool; 0: enough
  int batch_tokens = 64;
  bool overlap = false;
  bool prefix_cache = false;
  bool serialize = false;
  int drafts = 0;
  std::string device = "cpu";
  bool ahead = false;     // a step is launched before the one before it is finished
  bool mirrored = false;  // a second runner computes the same steps
  bool late = false;      // some masks are
  // A step in which something goes wrong: `fails` is the op that the device fails in, or empty
  // where the step is dropped. 0: none.
  uint64_t fail_step = 0;
  std::string fails = {};
};

exec::TinyOptions OptionsOf(const Setting& setting) {
  return {.device = setting.device, .group_blocks = setting.blocks, .draft_tokens = setting.drafts};
}

class Driver {
 public:
  explicit Driver(const Setting& setting)
      : setting_(setting), tiny_(setting.model, OptionsOf(setting)) {
    schedule::SchedulerOptions options;
    options.max_num_seqs = exec::kTestSlots;
    options.max_batch_tokens = setting.batch_tokens;
    options.max_extra_rows = 64;
    options.max_draft_tokens = setting.drafts;
    options.counted_slots = tiny_.executor->Info().counted_slots;
    options.max_model_len = exec::kTestLength;
    options.prefix_cache = setting.prefix_cache;
    auto scheduler = schedule::Scheduler::Create(options, tiny_.store->groups());
    EXPECT_TRUE(scheduler.ok()) << scheduler.status().message();
    scheduler_ = std::move(scheduler).value();
    runner_ = tiny_.executor.get();
    if (!setting.mirrored) return;
    other_ = std::make_unique<exec::TinyExecutor>(setting.model, OptionsOf(setting));
    mirror_ = std::make_unique<MirrorRunner>(*tiny_.executor, *other_->executor);
    runner_ = mirror_.get();
  }

  // Adds `requests` a few at a time and runs until all have ended.
  Outcomes Run(const std::vector<std::vector<SequenceSpec>>& requests) {
    size_t added = 0;
    StepResult late;  // executed, not committed
    bool has_late = false;
    for (int64_t now = 1; added < requests.size() || scheduler_->HasWork(); ++now) {
      EXPECT_LT(now, 5000) << "no end in sight";
      if (now >= 5000 || ::testing::Test::HasFailure()) return outcomes_;
      for (int i = 0; i < 2 && added < requests.size(); ++i) {
        for (const SequenceSpec& spec : requests[added]) specs_[spec.id] = spec;
        EXPECT_TRUE(scheduler_->Add(requests[added++], now).ok());
      }
      Draft();
      BatchPlan plan;
      scheduler_->Plan(now, &plan);
      if (setting_.ahead) {
        const BatchPlan kept = plan;
        Launch(&plan);
        if (steps_.size() == 2) FinishOldest();
        Sample(kept);
        continue;
      }
      if (setting_.overlap && has_late) Commit(late);
      StepResult result = Execute(std::move(plan));
      if (setting_.overlap) {
        late = std::move(result);
        has_late = scheduler_->uncommitted() > 0;
      } else {
        Commit(result);
      }
    }
    if (has_late) Commit(late);
    Drain();
    return outcomes_;
  }
  exec::TinyExecutor& tiny() { return tiny_; }
  schedule::SchedulerStats stats() const { return scheduler_->Stats(); }

 private:
  // Drafts what a reference run drew, every fourth of them wrong.
  void Draft() {
    if (setting_.drafts == 0) return;
    for (schedule::Sequence* sequence : scheduler_->running()) {
      std::vector<int32_t> drafts;
      const std::vector<int32_t>& known = reference[sequence->spec.id].ids;
      for (int i = 0; i < setting_.drafts; ++i) {
        const size_t at = static_cast<size_t>(sequence->drawn() + i);
        if (at >= known.size()) break;
        const bool wrong = ++drafted_ % 4 == 0;
        drafts.push_back(!wrong ? known[at] : known[at] == 5 ? 6 : 5);
      }
      if (drafts.empty() || scheduler_->AttachDrafts(sequence->spec.id, drafts)) continue;
      if (drafted_ % 2 == 0) scheduler_->AwaitCommit(sequence->spec.id);
    }
  }
  StepResult Execute(BatchPlan plan) {
    if (setting_.serialize) {
      auto back = batch::Deserialize(batch::Serialize(plan));
      EXPECT_TRUE(back.ok()) << back.status().message();
      if (back.ok()) plan = std::move(back).value();
    }
    const BatchPlan kept = plan;
    Launch(&plan);
    Sample(kept);
    return Take();
  }
  void Launch(BatchPlan* plan) {
    const uint64_t id = plan->step;
    if (id == setting_.fail_step && !setting_.fails.empty()) tiny_.queued().FailOp(setting_.fails);
    auto step = runner_->Launch(plan, nullptr);
    if (step.ok()) {
      steps_.push_back(*std::move(step));
      step_ids_.push_back(id);
      return;
    }
    ASSERT_GT(setting_.fail_step, 0u) << step.status().message();
    Drain();  // with the same error, or built on what had it
    Fail(id);
  }
  void Drain() {
    while (!steps_.empty()) FinishOldest();
  }
  // Whoever the step named ends, and is asked for again from the beginning when nothing is in
  // flight that stands on it.
  void Fail(uint64_t id) {
    ++failed;
    schedule::CommitOutcome outcome;
    scheduler_->Fail(id, &outcome);
    scheduler_->CheckInvariants();
    for (const schedule::SequenceOutcome& sequence : outcome.sequences) {
      outcomes_.erase(sequence.id);
      again_.push_back(specs_.at(sequence.id));
    }
    Drain();
    for (; !again_.empty(); again_.pop_back()) {
      EXPECT_TRUE(scheduler_->Add(std::move(again_.back()), 0).ok());
    }
  }
  // Gives the masks of the newest step.
  void Sample(const BatchPlan& plan) {
    if (steps_.empty() || !steps_.back().waits_for_masks()) return;
    batch::TestMasks masks = {
        .fill = [&](const batch::PlanEntry& entry, int row, std::span<uint32_t> allowed) {
          const int32_t token = plan.logits_rows[entry.logits_begin + row].token;
          FillMask(entry.sequence, entry.first_position + token - entry.token_begin, allowed);
          return !late_.contains(entry.sequence);
        }};
    late_.clear();
    for (const batch::PlanEntry& entry : plan.entries) {
      if (entry.masked && setting_.late && ++masked_ % 4 == 0) late_.insert(entry.sequence);
    }
    const int64_t vocab = tiny_.model->vocab_size();
    const Status status = steps_.back().Sample(batch::MasksOf(masks, plan, vocab));
    EXPECT_TRUE(status.ok() || setting_.fail_step > 0) << status.message();
    for (const schedule::SequenceId id : late_) postponed += scheduler_->Postpone(id) ? 1 : 0;
  }
  // What may follow a position of a sequence: two thirds of the vocabulary.
  static void FillMask(schedule::SequenceId id, int32_t position, std::span<uint32_t> allowed) {
    for (size_t token = 0; token < allowed.size() * 32; ++token) {
      if ((token + id + static_cast<size_t>(position)) % 3 == 0) continue;
      allowed[token / 32] |= 1u << (token % 32);
    }
  }
  StepResult Take() {
    StepResult result;
    if (steps_.empty()) return result;
    const Status status = TakeOldest().Finish(&result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }
  exec::Step TakeOldest() {
    exec::Step step = std::move(steps_.front());
    steps_.pop_front();
    step_ids_.pop_front();
    return step;
  }
  void FinishOldest() {
    const uint64_t id = last_step = step_ids_.front();
    StepResult result;
    Status status(StatusCode::kDevice, "dropped");
    {
      exec::Step step = TakeOldest();
      const bool drops = id == setting_.fail_step && setting_.fails.empty();
      if (!drops) status = step.Finish(&result);
    }
    if (status.ok()) {
      Commit(result);
      return;
    }
    ASSERT_GT(setting_.fail_step, 0u) << status.message();
    Fail(id);
  }
  void Commit(const StepResult& result) {
    if (::testing::Test::HasFailure()) return;
    schedule::CommitOutcome outcome;
    scheduler_->Commit(result, &outcome);
    scheduler_->CheckInvariants();
    for (const schedule::SequenceOutcome& sequence : outcome.sequences) {
      Outcome& out = outcomes_[sequence.id];
      for (int i = 0; i < sequence.token_count; ++i) {
        out.ids.push_back(result.tokens[sequence.token_begin + i].id);
        out.logprobs.push_back(result.tokens[sequence.token_begin + i].logprob);
      }
      for (int i = 0; i < sequence.score_count; ++i) {
        out.scores.push_back(result.scores[sequence.score_begin + i].logprob);
      }
      if (sequence.finish == FinishReason::kNone) continue;
      EXPECT_EQ(out.finish, FinishReason::kNone);
      out.finish = sequence.finish;
    }
  }

 public:
  Outcomes reference;
  int postponed = 0, failed = 0;
  uint64_t last_step = 0;

 private:
  const Setting setting_;
  exec::TinyExecutor tiny_;
  std::unique_ptr<exec::TinyExecutor> other_;
  std::unique_ptr<MirrorRunner> mirror_;
  exec::StepRunner* runner_ = nullptr;
  std::deque<exec::Step> steps_;  // launched and not finished
  std::deque<uint64_t> step_ids_;
  std::map<schedule::SequenceId, SequenceSpec> specs_;
  std::vector<SequenceSpec> again_;
  std::unique_ptr<schedule::Scheduler> scheduler_;
  Outcomes outcomes_;
  int drafted_ = 0, masked_ = 0;
  std::set<schedule::SequenceId> late_;  // of the newest step
};

// Twelve requests of all kinds; some share a beginning, some have several choices.
std::vector<std::vector<SequenceSpec>> Requests() {
  std::mt19937 random(3);
  std::vector<std::vector<SequenceSpec>> requests;
  std::vector<int32_t> shared;
  for (int i = 0; i < 30; ++i) shared.push_back(3 + static_cast<int32_t>(random() % 120));
  for (uint64_t r = 1; r <= 12; ++r) {
    SequenceSpec spec;
    if (r % 3 == 0) spec.prompt.assign(shared.begin(), shared.begin() + 8 + random() % 22);
    for (uint64_t i = random() % 20; i < 20; ++i) {
      spec.prompt.push_back(3 + static_cast<int32_t>(random() % 120));
    }
    spec.max_tokens = 1 + static_cast<int32_t>(random() % 30);
    spec.sampling.temperature = r % 4 == 0 ? 0.0f : 0.9f;
    spec.sampling.seed = 70 + r;
    spec.sampling.top_logprobs = 1;
    if (r % 4 == 1) spec.sampling.frequency_penalty = 0.8f;
    spec.masked = r % 3 == 1;
    if (r % 4 == 2) spec.sampling.min_tokens = static_cast<int32_t>(random() % 4);
    for (int32_t id = 0; r % 4 == 2 && id < 128; id += 5) spec.stop_ids.push_back(id);
    if (r % 5 == 0) {
      spec.prompt_logprobs = true;
      spec.sampling.prompt_top_logprobs = 0;
    }
    const int choices = r % 4 == 3 ? 3 : 1;
    std::vector<SequenceSpec> request;
    for (int choice = 0; choice < choices; ++choice) {
      spec.id = 16 * r + static_cast<uint64_t>(choice);
      spec.sampling.choice = choice;
      spec.prompt_logprobs = spec.prompt_logprobs && choice == 0;
      request.push_back(spec);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

class Steps : public ::testing::TestWithParam<std::string> {
 protected:
  Outcomes Plain() {
    Driver driver({.model = GetParam()});
    return driver.Run(Requests());
  }
};
void ExpectSomeAccepted(const schedule::SchedulerStats& stats) {
  EXPECT_GT(stats.accepted, 0u);
  EXPECT_GT(stats.drafted, stats.accepted);
}

INSTANTIATE_TEST_SUITE_P(Models, Steps, ::testing::Values("llama", "gemma2", "qwen3_next"),
                         [](const auto& name) { return name.param; });

TEST_P(Steps, EveryRequestEnds) {
  const Outcomes plain = Plain();
  EXPECT_EQ(plain.size(), 18u);
  size_t stopped = 0;
  for (const auto& [id, outcome] : plain) {
    EXPECT_NE(outcome.finish, FinishReason::kNone) << id;
    EXPECT_NE(outcome.finish, FinishReason::kError) << id;
    EXPECT_EQ(outcome.ids.size(), outcome.logprobs.size());
    stopped += outcome.finish == FinishReason::kStop;
  }
  EXPECT_GT(stopped, 0u);
}

TEST_P(Steps, ACommitOneStepLateChangesNothing) {
  const Outcomes plain = Plain();
  for (const bool cache : {false, true}) {
    Driver driver({.model = GetParam(), .overlap = true, .prefix_cache = cache});
    EXPECT_TRUE(driver.Run(Requests()) == plain) << cache;
    EXPECT_EQ(driver.stats().prefix_hits > 0, cache);
  }
}

// On a device whose memory the host cannot read: ids of the step before stay there, and single
// tokens run through graphs.
TEST_P(Steps, StepsLaunchedAheadOnADeviceWithItsOwnMemoryChangeNothing) {
  const Outcomes plain = Plain();
  for (const char* device : {"pinned", "plain", "nographs", "chunks", "noattention"}) {
    for (const bool ahead : {false, true}) {
      Driver driver({.model = GetParam(),
                     .batch_tokens = ahead ? 64 : 13,
                     .prefix_cache = true,
                     .device = device,
                     .ahead = ahead});
      EXPECT_TRUE(driver.Run(Requests()) == plain) << device << ahead;
      EXPECT_EQ(driver.tiny().queued().counts().replays > 0, std::string(device) != "nographs");
    }
  }
  Driver tight(
      {.model = GetParam(), .blocks = 14, .prefix_cache = true, .device = "pinned", .ahead = true});
  EXPECT_TRUE(tight.Run(Requests()) == plain);
  EXPECT_GT(tight.stats().preemptions, 0u);
}

TEST_P(Steps, ChunksAndSerializationChangeNothing) {
  const Outcomes plain = Plain();
  for (const int tokens : {8, 13}) {
    for (const bool overlap : {false, true}) {
      Driver driver(
          {.model = GetParam(), .batch_tokens = tokens, .overlap = overlap, .serialize = true});
      EXPECT_TRUE(driver.Run(Requests()) == plain) << tokens;
    }
  }
}

TEST_P(Steps, TwoRunnersThatGetTheSameBytesAgree) {
  const Outcomes plain = Plain();
  for (const bool ahead : {false, true}) {
    Driver driver({.model = GetParam(),
                   .blocks = 14,
                   .prefix_cache = true,
                   .device = "pinned",
                   .ahead = ahead,
                   .mirrored = true});
    EXPECT_TRUE(driver.Run(Requests()) == plain) << ahead;
    EXPECT_GT(driver.stats().preemptions, 0u);
  }
}

TEST_P(Steps, PreemptionAndTheOverlapTogetherChangeNothing) {
  const Outcomes plain = Plain();
  for (const bool overlap : {false, true}) {
    Driver driver({.model = GetParam(), .blocks = 14, .overlap = overlap, .prefix_cache = true});
    EXPECT_TRUE(driver.Run(Requests()) == plain) << overlap;
    EXPECT_GT(driver.stats().preemptions, 0u);
  }
}

TEST_P(Steps, LateMasksChangeNothingButTheNumberOfSteps) {
  const Outcomes plain = Plain();
  for (const int drafts : {0, 3}) {
    for (const char* device : {"cpu", "pinned", "plain"}) {
      for (const bool ahead : {false, true}) {
        Driver driver({.model = GetParam(),
                       .blocks = ahead ? 14 : 0,
                       .prefix_cache = true,
                       .drafts = drafts,
                       .device = device,
                       .ahead = ahead,
                       .mirrored = ahead,
                       .late = true});
        driver.reference = plain;
        EXPECT_TRUE(driver.Run(Requests()) == plain) << drafts << device << ahead;
        EXPECT_GT(driver.postponed, 10);
      }
    }
  }
}

TEST_P(Steps, DraftsChangeNothingButTheNumberOfSteps) {
  const Outcomes plain = Plain();
  for (const bool overlap : {false, true}) {
    Driver driver({.model = GetParam(), .overlap = overlap, .drafts = 3});
    driver.reference = plain;
    EXPECT_TRUE(driver.Run(Requests()) == plain) << overlap;
    ExpectSomeAccepted(driver.stats());
  }
}

// On a device whose memory the host cannot read, where steps with drafts are replayed too.
TEST_P(Steps, DraftsInGraphsChangeNothing) {
  const Outcomes plain = Plain();
  for (const char* device : {"pinned", "plain", "nographs", "chunks", "noattention"}) {
    for (const bool ahead : {false, true}) {
      for (const int drafts : {1, 3, 8}) {
        Driver driver({.model = GetParam(),
                       .prefix_cache = true,
                       .drafts = drafts,
                       .device = device,
                       .ahead = ahead});
        driver.reference = plain;
        EXPECT_TRUE(driver.Run(Requests()) == plain) << device << ahead << drafts;
        ExpectSomeAccepted(driver.stats());
        const std::vector<exec::BucketShape> captured = driver.tiny().executor->captured();
        const bool verified = std::any_of(captured.begin(), captured.end(), [](const auto& shape) {
          return shape.tokens > shape.sequences;
        });
        if (GetParam() == "qwen3_next") continue;
        EXPECT_EQ(verified, std::string(device) != "nographs") << device << ahead << drafts;
      }
    }
  }
  Driver tight({.model = GetParam(),
                .blocks = 14,
                .prefix_cache = true,
                .drafts = 8,
                .device = "pinned",
                .ahead = true});
  tight.reference = plain;
  EXPECT_TRUE(tight.Run(Requests()) == plain);
  EXPECT_GT(tight.stats().preemptions, 0u);
}

// Whatever step it is that fails or is dropped: who was in it, and in the step behind it, starts
// again, and nobody reads what the device holds of them from before.
TEST_P(Steps, ARunGoesOnRightBehindAnyStepThatFailed) {
  const Outcomes plain = Plain();
  const auto setting = [&](const char* device, uint64_t fail_step, std::string fails) {
    return Setting{.model = GetParam(),
                   .blocks = 14,
                   .prefix_cache = true,
                   .device = device,
                   .ahead = true,
                   .fail_step = fail_step,
                   .fails = std::move(fails)};
  };
  // "pinned" fails when it comes to the op, "checked" when the op is put on it.
  struct Failing {
    const char* device;
    std::vector<std::string> fails;
    uint64_t stride;
  };
  // "pinned" fails when it comes to the op; "checked", which takes its time, when the op is put on
  // it.
  const Failing devices[] = {{"pinned", {"attention", "", "sample"}, 1},
                             {"checked", {"place_tokens", "attention"}, 9}};
  for (const auto& [device, fails, stride] : devices) {
    Driver whole(setting(device, 0, ""));
    ASSERT_TRUE(whole.Run(Requests()) == plain);
    EXPECT_GT(whole.stats().preemptions, 0u);
    ASSERT_GT(whole.last_step, 40u);
    for (uint64_t step = 1; step + 1 < whole.last_step; step += stride) {
      Driver driver(setting(device, step, fails[step % fails.size()]));
      ASSERT_TRUE(driver.Run(Requests()) == plain) << device << " " << step;
      EXPECT_GT(driver.failed, 0) << device << " " << step;
    }
  }
}

}  // namespace
}  // namespace sluice
