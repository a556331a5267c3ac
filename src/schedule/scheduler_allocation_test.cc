// A decode step of the scheduler asks for no memory: what it needs was reserved when the sequences
// were admitted.
#include <gtest/gtest.h>

#include <optional>

#include "base/allocation_fixture.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {
namespace {

constexpr int32_t kSequences = 256;
constexpr int32_t kPrompt = 40;
constexpr int32_t kAnswer = 400;

// One token for each entry that draws.
void Answer(const batch::BatchPlan& plan, batch::StepResult* result) {
  result->Reset(plan.step);
  for (const batch::PlanEntry& entry : plan.entries) {
    batch::ResultEntry out;
    out.sequence = entry.sequence;
    out.token_begin = static_cast<int32_t>(result->tokens.size());
    out.token_count = entry.logits_count;
    if (entry.logits_count > 0) {
      result->tokens.push_back({.id = static_cast<int32_t>(100 + plan.step + entry.slot)});
    }
    result->entries.push_back(out);
  }
}

// Runs kSequences sequences until shortly before their end and expects that, once all decode, Plan
// and Commit allocate nothing. `overlap`: Commit comes one step late.
void ExpectNoAllocations(std::vector<batch::KvGroup> groups, bool overlap) {
  SchedulerOptions options;
  options.max_num_seqs = kSequences;
  options.max_batch_tokens = 2048;
  options.max_model_len = 1024;
  auto made = Scheduler::Create(options, std::move(groups));
  ASSERT_TRUE(made.ok()) << made.status().message();
  Scheduler& scheduler = **made;
  for (int32_t i = 1; i <= kSequences; ++i) {
    SequenceSpec spec;
    spec.id = static_cast<SequenceId>(i);
    spec.prompt.assign(kPrompt, i);
    spec.max_tokens = kAnswer;
    ASSERT_TRUE(scheduler.Add(std::move(spec), i).ok());
  }
  batch::BatchPlan plan;
  batch::StepResult result, previous;
  CommitOutcome outcome;
  int decoded = 0;  // steps in which every sequence decoded
  for (int step = 0; step < kAnswer; ++step) {
    int64_t allocations = AllocationsOf([&] { scheduler.Plan(step, &plan); });
    Answer(plan, &result);
    if (!overlap) {
      allocations += AllocationsOf([&] { scheduler.Commit(result, &outcome); });
    } else if (step > 0) {
      allocations += AllocationsOf([&] { scheduler.Commit(previous, &outcome); });
    }
    std::swap(result, previous);
    const bool all_decode =
        plan.entries.size() == kSequences && plan.tokens.size() == plan.entries.size();
    decoded = all_decode ? decoded + 1 : 0;
    // The buffers have their sizes after the first such steps.
    if (decoded > 3) {
      ASSERT_EQ(allocations, 0) << "step " << step;
    }
  }
  EXPECT_GT(decoded, kAnswer / 2);
  scheduler.CheckInvariants();
}

TEST(SchedulerAllocation, ADecodeStepAllocatesNothing) {
  ExpectNoAllocations({{batch::KvKind::kFull, 16, 16, 0, 8000}}, false);
}

TEST(SchedulerAllocation, NorDoesItOneStepAhead) {
  ExpectNoAllocations({{batch::KvKind::kFull, 16, 16, 0, 8000}}, true);
}

TEST(SchedulerAllocation, NorWithWindowsAndKernelBlocks) {
  ExpectNoAllocations(
      {{batch::KvKind::kFull, 16, 8, 0, 8000}, {batch::KvKind::kWindow, 16, 8, 64, 3000}}, true);
}

}  // namespace
}  // namespace sluice::schedule
