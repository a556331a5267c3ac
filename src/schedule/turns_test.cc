// Who sits out a step, on devices whose steps take what a function says.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

using Cost = std::function<int64_t(int32_t tokens)>;

// A processor that is busy with one token, and an accelerator for which all steps are the same.
int64_t EachToken(int32_t tokens) { return 1000 * tokens; }
int64_t AnyStep(int32_t) { return 1000; }

class TurnsTest : public SchedulerTest {
 protected:
  void SetUp() override {
    SchedulerOptions options = Options();
    options.max_num_seqs = 16;
    options.max_batch_tokens = 64;
    options.max_model_len = 4000;
    options.queue_limit = 200;
    options.policy = "fair";
    Start(options, Blocks(20'000));
  }
  void AddOf(uint64_t client, SequenceId id, int32_t max_tokens, bool no_overlap = false) {
    SequenceSpec spec = Spec(id, Count(3, static_cast<int32_t>(id) * 100), max_tokens);
    spec.client = client;
    spec.no_overlap = no_overlap;
    Add(std::move(spec));
  }
  // Client 1 with more sequences than there are slots.
  void AddMany() {
    for (SequenceId id = 1; id <= 40; ++id) AddOf(1, id, 3900);
  }
  // One step; its clients.
  std::set<uint64_t> Step(const Cost& cost) {
    const BatchPlan plan = Plan();
    std::set<uint64_t> clients;
    for (const batch::PlanEntry& entry : plan.entries) {
      const Sequence* sequence = s->Find(entry.sequence);
      clients.insert(sequence->spec.client);
      if (sequence->spec.client == 1) many_tokens += entry.query_tokens;
    }
    const int64_t took = cost(static_cast<int32_t>(plan.tokens.size()));
    now += took;
    Commit(Answer(plan));
    if (told) s->Took(took);
    return clients;
  }
  // How long client 2 waits for an answer of so many tokens.
  int64_t TimeOfOne(SequenceId id, int32_t tokens, const Cost& cost) {
    AddOf(2, id, tokens);
    const int64_t begin = now;
    while (s->Find(id) != nullptr) Step(cost);
    return now - begin;
  }

  bool told = true;         // the scheduler is, how long steps take
  int64_t many_tokens = 0;  // computed of client 1
};

// Drafts of a head are known on the device alone, and count when a step is planned.
TEST_F(TurnsTest, DraftsOfAHeadLeaveTokensForPrompts) {
  for (const bool contended : {false, true}) {
    SchedulerOptions options = Options();
    options.max_num_seqs = 16;
    options.max_batch_tokens = 48;
    options.max_model_len = 4000;
    options.policy = "fair";
    options.max_draft_tokens = 7;
    Start(options, Blocks(20'000));
    for (SequenceId id = 1; id <= 8; ++id) {
      SequenceSpec spec = Spec(id, Count(3, static_cast<int32_t>(id) * 100), 3000);
      spec.client = 1;
      spec.device_drafts = 7;
      Add(std::move(spec));
    }
    for (int i = 0; i < 20; ++i) Step(EachToken);
    if (contended) TimeOfOne(900, 4, EachToken);
    SequenceSpec prompt = Spec(1000, Count(160, 2000), 4);
    prompt.client = 1;
    Add(std::move(prompt));
    int64_t computed = 0;  // of all
    while (s->Find(1000)->planned < 160 && computed < 2000) {
      const int64_t begin = now;
      Step(EachToken);
      computed += (now - begin) / EachToken(1);
    }
    EXPECT_LE(computed, 4 * 160) << "contended " << contended;
  }
}

TEST_F(TurnsTest, OneBesideManyWaitsTwiceAsLongAsAloneAtMost) {
  for (const int32_t tokens : {40, 100, 400}) {
    SetUp();
    const int64_t alone = TimeOfOne(1000, tokens, EachToken);
    AddMany();
    for (int i = 0; i < 20; ++i) Step(EachToken);
    EXPECT_LE(TimeOfOne(1001, tokens, EachToken), 2 * alone) << tokens;
  }
}

// As on a processor with a little to do for each step, whatever is in it.
TEST_F(TurnsTest, AShortAnswerBesideManyWaitsTwiceAsLongAsAloneAtMost) {
  const Cost cost = [](int32_t tokens) { return 2000 + 500 * tokens; };
  for (const int32_t tokens : {4, 8, 16, 64}) {
    SetUp();
    const int64_t alone = TimeOfOne(1000, tokens, cost);
    AddMany();
    for (int i = 0; i < 60; ++i) Step(cost);
    for (SequenceId id = 1001; id < 1006; ++id) {
      // It comes as a step of the others begins.
      const BatchPlan plan = Plan();
      AddOf(2, id, tokens);
      const int64_t begin = now, took = cost(static_cast<int32_t>(plan.tokens.size()));
      now += took;
      Commit(Answer(plan));
      s->Took(took);
      while (s->Find(id) != nullptr) Step(cost);
      if (id > 1001) {
        EXPECT_LE(now - begin, 2 * alone) << tokens << " tokens, the " << id;
      }
      for (int i = 0; i < 7; ++i) Step(cost);
    }
  }
}

TEST_F(TurnsTest, SequencesThatTakeTurnsAllGetOn) {
  AddMany();
  TimeOfOne(1000, 2, EachToken);
  for (int i = 0; i < 20; ++i) Step(EachToken);
  std::map<SequenceId, int> drawn;
  int64_t rows = 0;
  for (int i = 0; i < 64; ++i) {
    const BatchPlan plan = Plan();
    rows = std::max(rows, static_cast<int64_t>(plan.entries.size()));
    for (const batch::PlanEntry& entry : plan.entries) ++drawn[entry.sequence];
    const int64_t took = EachToken(static_cast<int32_t>(plan.tokens.size()));
    now += took;
    Commit(Answer(plan));
    s->Took(took);
  }
  EXPECT_LT(rows, 16);
  ASSERT_EQ(drawn.size(), 16u);
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(drawn.begin(), drawn.end(), less);
  EXPECT_LE(most->second - least->second, 1);
}

TEST_F(TurnsTest, DraftsOfManyGiveWayToTheirRows) {
  SchedulerOptions options = Options();
  options.max_num_seqs = 16;
  options.max_batch_tokens = 64;
  options.max_draft_tokens = 8;
  options.max_model_len = 4000;
  options.queue_limit = 200;
  options.policy = "fair";
  Start(options, Blocks(20'000));
  AddMany();
  TimeOfOne(1000, 2, EachToken);
  for (int i = 0; i < 20; ++i) Step(EachToken);
  for (const Sequence* sequence : s->running()) s->AttachDrafts(sequence->spec.id, Count(8, 7));
  const BatchPlan plan = Plan();
  EXPECT_GT(plan.entries.size(), 1u);
  for (const batch::PlanEntry& entry : plan.entries) EXPECT_EQ(entry.query_tokens, 1);
}

TEST_F(TurnsTest, WithoutTheTimeOfStepsAllGoTogether) {
  told = false;
  AddMany();
  for (int i = 0; i < 20; ++i) Step(EachToken);
  EXPECT_GE(TimeOfOne(1001, 100, EachToken), 10 * 100 * 1000);
}

TEST_F(TurnsTest, WhoHasManyGetsOnBesideOneThatAlwaysComesBack) {
  AddMany();
  for (int i = 0; i < 20; ++i) Step(EachToken);
  for (const int32_t tokens : {4, 40, 400}) {
    const int64_t begin = now;
    many_tokens = 0;
    for (SequenceId id = 1000; now - begin < 2'000'000; ++id) {
      TimeOfOne(id + 1000 * tokens, tokens, EachToken);
    }
    // Alone it computes a token a millisecond.
    EXPECT_GE(1000 * many_tokens, (now - begin) / 3) << tokens;
  }
}

TEST_F(TurnsTest, WhereAStepOfAllCostsNoMoreNobodySitsOut) {
  AddMany();
  for (int i = 0; i < 20; ++i) Step(AnyStep);
  AddOf(2, 1001, 500);
  int apart = 0;
  for (int i = 0; i < 200; ++i) apart += Step(AnyStep).size() == 2 ? 0 : 1;
  EXPECT_LE(apart, 5);
}

TEST_F(TurnsTest, EqualsGetOnEqually) {
  for (SequenceId id = 1; id <= 16; ++id) AddOf(1 + id % 2, id, 3900);
  std::map<uint64_t, int> steps;
  for (int i = 0; i < 400; ++i) {
    for (const uint64_t client : Step(EachToken)) ++steps[client];
  }
  EXPECT_NEAR(steps[1], steps[2], 20);
}

TEST_F(TurnsTest, StepsAreNoLongerThanTheDeviceNeedsWhereOthersMayCome) {
  const auto longest = [this] {
    int64_t most = 0;
    for (int i = 0; i < 40; ++i) {
      Step([&](int32_t tokens) {
        most = std::max<int64_t>(most, tokens);
        return EachToken(tokens);
      });
    }
    return most;
  };
  for (SequenceId id = 1; id <= 20; ++id) {
    SequenceSpec spec = Spec(id, Count(200, static_cast<int32_t>(id) * 1000), 1);
    spec.client = 1;
    Add(std::move(spec));
  }
  EXPECT_EQ(longest(), 64);
  TimeOfOne(1000, 4, EachToken);
  EXPECT_LT(longest(), 64);
}

TEST_F(TurnsTest, NobodySitsOutForSomebodyWhoWaitsForAStep) {
  AddMany();
  for (int i = 0; i < 20; ++i) Step(EachToken);
  AddOf(2, 1001, 100, true);
  const BatchPlan first = Plan();
  ASSERT_EQ(first.entries.size(), 1u);
  EXPECT_EQ(first.entries[0].sequence, 1001u);
  const BatchPlan second = Plan();  // behind the first, which draws what it needs
  EXPECT_FALSE(second.entries.empty());
  Commit(Answer(first));
  Commit(Answer(second));
}

}  // namespace
}  // namespace sluice::schedule
