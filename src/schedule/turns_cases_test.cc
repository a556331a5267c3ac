// What a client with one request waits beside a client with a hundred, by the lengths of its prompt
// and answer, on a device without noise whose steps take what a function says.
#include <algorithm>
#include <functional>

#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

using Cost = std::function<int64_t(int32_t tokens)>;

// Two cores with a small model: a little to do for each step, whatever is in it, and a token's
// part.
int64_t Processor(int32_t tokens) { return 2000 + 500 * tokens; }
// An accelerator, on which a step of a few tokens costs as much as one of a hundred.
int64_t Accelerator(int32_t tokens) { return 4000 + 1000 * std::max(0, tokens - 100) / 50; }

struct Case {
  int32_t prompt, answer;
};
constexpr int32_t kPrompts[] = {8, 64, 200, 1000}, kAnswers[] = {1, 4, 16, 64, 256};

class TurnsCasesTest : public SchedulerTest {
 protected:
  void Begin(bool drafts) {
    drafts_ = drafts;
    many_ = 0;
    SchedulerOptions options;
    options.max_num_seqs = 64;
    options.max_batch_tokens = 512;
    options.max_model_len = 2048;
    options.queue_limit = 200;
    options.policy = "fair";
    options.max_draft_tokens = 8;
    Start(options, Blocks(60'000));
    next_many_ = 1'010'000;
  }
  void AddOf(uint64_t client, SequenceId id, Case lengths) {
    SequenceSpec spec =
        Spec(id, Count(lengths.prompt, static_cast<int32_t>(id % 20'000) * 1000), lengths.answer);
    spec.client = client;
    Add(std::move(spec));
  }
  // Client 1 has a hundred requests at any time.
  void AddMany() {
    while (many_ < 100) AddOf(1, next_many_++, {64, 512}), ++many_;
  }
  // One step. `meanwhile`: as a part of it has passed.
  void Step(const Cost& cost, double part = 0.0, const std::function<void()>& meanwhile = {}) {
    for (const Sequence* sequence : s->running()) {
      if (drafts_ && sequence->spec.client == 1) s->AttachDrafts(sequence->spec.id, Count(8, 7));
    }
    BatchPlan plan;
    s->Plan(now++, &plan);
    const int64_t took = plan.entries.empty() ? 0 : cost(static_cast<int32_t>(plan.tokens.size()));
    now += static_cast<int64_t>(part * static_cast<double>(took));
    if (meanwhile) meanwhile();
    now += took - static_cast<int64_t>(part * static_cast<double>(took));
    for (const SequenceOutcome& out : Book(Reject(plan))) {
      const bool of_many = out.id >= 1'000'000;
      drawn_of_many_ += of_many ? out.token_count : 0;
      if (of_many && out.finish != FinishReason::kNone) --many_;
    }
    s->Took(took);
    if (next_many_ > 1'010'000) AddMany();
  }
  const std::vector<SequenceOutcome>& Book(const StepResult& result) {
    s->Commit(result, &outcome);
    return outcome.sequences;
  }
  // What Answer says, but that no draft is drawn.
  static StepResult Reject(const BatchPlan& plan) {
    StepResult result = Answer(plan);
    for (batch::ResultToken& drawn : result.tokens) drawn.id = kDrawn;
    return result;
  }
  // How long client 2 waits for its answer if it comes when a part of a step has passed.
  int64_t Wait(SequenceId id, Case lengths, const Cost& cost, double part) {
    int64_t begin = 0;
    Step(cost, part, [&] {
      AddOf(2, id, lengths);
      begin = now;
    });
    while (s->Find(id) != nullptr) Step(cost);
    return now - begin;
  }
  void Pass(int64_t microseconds, const Cost& cost) {
    for (const int64_t end = now + microseconds; now < end;) Step(cost);
  }

  bool drafts_ = false;  // each of the many has eight, none of which is drawn
  int many_ = 0;
  SequenceId next_many_ = 0;
  int64_t drawn_of_many_ = 0;
};

// The bar is twice the time alone, however early in a step of the others the request comes, and
// less on average. Microseconds that the scheduler's clock counts by itself are no step.
constexpr int64_t kClockUs = 100;
constexpr double kMeanMax = 1.75;

TEST_F(TurnsCasesTest, OneBesideAHundredWaitsTwiceAsLongAsAloneAtMost) {
  for (const bool drafts : {false, true}) {
    for (const Cost& cost : {Cost(Processor), Cost(Accelerator)}) {
      for (const int32_t prompt : kPrompts) {
        for (const int32_t answer : kAnswers) {
          SCOPED_TRACE(testing::Message()
                       << prompt << " and " << answer << " tokens, a step of one " << cost(1)
                       << " us, drafts " << drafts);
          Begin(drafts);
          const int64_t alone = Wait(1, {prompt, answer}, cost, 0.0);
          AddMany();
          Pass(4'000'000, cost);
          Wait(2, {prompt, answer}, cost, 0.0);  // by which it is known that others may come
          double sum = 0.0;
          for (int i = 0; i < 8; ++i) {
            Pass(100'000 + 7919 * i, cost);
            const int64_t wait = Wait(3 + i, {prompt, answer}, cost, 0.25 * (i % 4));
            EXPECT_LE(wait, 2 * alone + kClockUs) << "visit " << i;
            sum += static_cast<double>(wait) / static_cast<double>(alone);
          }
          EXPECT_LE(sum / 8, kMeanMax);
        }
      }
    }
  }
}

TEST_F(TurnsCasesTest, SoDoesTheFirstAfterAQuietMinute) {
  for (const bool drafts : {false, true}) {
    for (const Case lengths : {Case{8, 1}, Case{8, 4}, Case{8, 64}, Case{200, 16}, Case{1000, 4}}) {
      SCOPED_TRACE(testing::Message()
                   << lengths.prompt << " and " << lengths.answer << " tokens, drafts " << drafts);
      Begin(drafts);
      const int64_t alone = Wait(1, lengths, Processor, 0.0);
      AddMany();
      Pass(4'000'000, Processor);
      Wait(2, lengths, Processor, 0.0);
      Pass(61'000'000, Processor);
      EXPECT_LE(Wait(3, lengths, Processor, 0.0), 2 * alone + kClockUs);
    }
  }
}

// What short steps cost the many, between two visits that are as short as can be; and that steps
// grow again where nobody comes.
TEST_F(TurnsCasesTest, TheManyKeepMoreThanHalfOfTheirRate) {
  const auto rate = [this] {
    const int64_t drawn = drawn_of_many_, begin = now;
    Pass(2'000'000, Processor);
    return static_cast<double>(drawn_of_many_ - drawn) / static_cast<double>(now - begin);
  };
  Begin(false);
  AddMany();
  Pass(10'000'000, Processor);
  const double before = rate();
  Wait(1, {8, 1}, Processor, 0.0);
  EXPECT_GE(rate(), 0.5 * before);
  Wait(2, {8, 16}, Processor, 0.0);
  Pass(600'000'000, Processor);
  EXPECT_GE(rate(), 0.85 * before);
}

}  // namespace
}  // namespace sluice::schedule
