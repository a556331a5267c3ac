// Clients that share: by what they have had, within the scheduler.
#include "schedule/fair_share.h"

#include <map>

#include "schedule/scheduler_fixture.h"

namespace sluice::schedule {
namespace {

TEST(FairShareTest, WhoComesBackIsLiftedToTheLeastOfThoseThatAreThere) {
  FairShare share;
  FairShare::Client* const first = share.Join(1, 1);
  FairShare::Charge(100, first);
  FairShare::Client* const second = share.Join(2, 4);
  EXPECT_EQ(second->served, 100);
  FairShare::Charge(40, second);
  EXPECT_EQ(second->served, 110);
  FairShare::Client* const third = share.Join(3, 1);
  EXPECT_EQ(third->served, 100);
  share.Leave(third);
  FairShare::Charge(500, first);
  EXPECT_EQ(share.Join(3, 1)->served, 110);
  EXPECT_EQ(share.clients(), 3u);
}

TEST(FairShareTest, WhoHadMoreDoesNotLoseItByLeaving) {
  FairShare share;
  FairShare::Client* const greedy = share.Join(1, 1);
  share.Join(2, 1);
  FairShare::Charge(1000, greedy);
  share.Leave(greedy);
  EXPECT_EQ(share.Join(1, 1)->served, 1000);
}

class FairSchedulerTest : public SchedulerTest {
 protected:
  void StartFair(int32_t slots) {
    SchedulerOptions options = Options();
    options.max_num_seqs = slots;
    options.queue_limit = 200;
    options.policy = "fair";
    Start(options, Blocks(64));
  }
  void AddOf(uint64_t client, SequenceId id, int32_t max_tokens = 8, int32_t weight = 1) {
    SequenceSpec spec = Spec(id, Count(3, static_cast<int32_t>(id) * 100), max_tokens);
    spec.client = client;
    spec.client_weight = weight;
    Add(std::move(spec));
  }
};

TEST_F(FairSchedulerTest, OneRequestBesideAHundredOfAnotherClientIsNext) {
  StartFair(1);
  for (SequenceId id = 1; id <= 100; ++id) AddOf(1, id, 1);
  Run();
  Run();
  AddOf(2, 101, 1);
  // At most one of the other client's comes before it, which was due when it came.
  int before = 0;
  for (; s->Find(101) != nullptr && before < 100; ++before) Run();
  EXPECT_LE(before, 2);
  RunToTheEnd();
}

TEST_F(FairSchedulerTest, AClientWithoutASlotGetsOneFromTheClientThatHasMost) {
  StartFair(3);
  for (SequenceId id = 1; id <= 3; ++id) AddOf(1, id, 50);
  for (int i = 0; i < 3; ++i) Run();
  AddOf(2, 4, 4);
  for (int i = 0; i < 2; ++i) Run();
  ASSERT_NE(s->Find(4), nullptr);
  EXPECT_EQ(s->Find(4)->state, SequenceState::kRunning);
  EXPECT_EQ(s->Find(3)->state, SequenceState::kPreempted);
  EXPECT_EQ(s->Stats().preemptions, 1u);
  // Nobody is pushed out for a client that has a slot.
  AddOf(2, 5, 4);
  Run();
  EXPECT_EQ(s->Stats().preemptions, 1u);
  RunToTheEnd();
}

TEST_F(FairSchedulerTest, ClientsShareByTheirWeights) {
  StartFair(1);
  for (SequenceId id = 1; id <= 80; ++id) AddOf(1 + id % 2, id, 2, id % 2 == 0 ? 1 : 3);
  std::map<uint64_t, int> ended;
  for (int i = 0; i < 1000 && ended[1] + ended[2] < 40; ++i) {
    for (const SequenceOutcome& out : Run().sequences) {
      if (out.finish != FinishReason::kNone) ++ended[1 + out.id % 2];
    }
  }
  EXPECT_NEAR(ended[2], 30, 1);
  EXPECT_NEAR(ended[1], 10, 1);
}

TEST_F(FairSchedulerTest, OneClientIsServedAsByPriority) {
  StartFair(1);
  AddOf(1, 1, 4);
  Run();
  SequenceSpec urgent = Spec(2, Count(3, 500), 4);
  urgent.client = 1;
  urgent.priority = -5;
  Add(std::move(urgent));
  EXPECT_EQ(Run().sequences.at(0).id, 2u);
  RunToTheEnd();
}

}  // namespace
}  // namespace sluice::schedule
