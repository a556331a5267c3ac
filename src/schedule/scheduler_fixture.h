// For tests of the scheduler: sequences, plans and results by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "schedule/scheduler.h"

namespace sluice::schedule {

using batch::BatchPlan;
using batch::kLastDrawn;
using batch::KvGroup;
using batch::KvKind;
using batch::RowPurpose;
using batch::StepResult;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Tokens = std::vector<int32_t>;

inline constexpr int32_t kEnd = 2;
inline constexpr int32_t kDrawn = 50;  // what Answer draws unless told otherwise

inline SchedulerOptions Options() {
  SchedulerOptions options;
  options.max_num_seqs = 4;
  options.max_batch_tokens = 16;
  options.max_model_len = 64;
  options.queue_limit = 8;
  return options;
}

inline std::vector<KvGroup> Blocks(int32_t num_blocks) {
  return {{KvKind::kFull, 4, 4, 0, num_blocks}};
}

inline Tokens Count(int32_t n, int32_t from = 100) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

inline SequenceSpec Spec(SequenceId id, Tokens prompt, int32_t max_tokens = 8) {
  SequenceSpec spec;
  spec.id = id;
  spec.prompt = std::move(prompt);
  spec.max_tokens = max_tokens;
  spec.end_ids = {kEnd};
  return spec;
}

// A scheduler and what an engine does around it.
class SchedulerTest : public testing::Test {
 protected:
  void Start(SchedulerOptions options, std::vector<KvGroup> groups) {
    auto scheduler = Scheduler::Create(options, std::move(groups));
    ASSERT_TRUE(scheduler.ok()) << scheduler.status().message();
    s = std::move(scheduler).value();
  }
  void Start() { Start(Options(), Blocks(16)); }

  void Add(SequenceSpec spec) {
    const Status status = s->Add(std::move(spec), now++);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  BatchPlan Plan() {
    BatchPlan plan;
    s->Plan(now++, &plan);
    s->CheckInvariants();
    return plan;
  }
  // A result that draws `token` in every sampling row and accepts every draft.
  static StepResult Answer(const BatchPlan& plan, int32_t token = kDrawn) {
    StepResult result;
    result.step = plan.step;
    for (const batch::PlanEntry& entry : plan.entries) {
      batch::ResultEntry out;
      out.sequence = entry.sequence;
      out.token_begin = static_cast<int32_t>(result.tokens.size());
      out.score_begin = static_cast<int32_t>(result.scores.size());
      for (int32_t r = entry.logits_begin; r < entry.logits_begin + entry.logits_count; ++r) {
        const batch::LogitsRow& row = plan.logits_rows[r];
        if (row.purpose == RowPurpose::kScore) {
          result.scores.push_back({.id = row.target, .logprob = -1.0f});
          ++out.score_count;
        } else {
          result.tokens.push_back({.id = row.target >= 0 ? row.target : token});
          ++out.token_count;
        }
      }
      result.entries.push_back(out);
    }
    return result;
  }
  const CommitOutcome& Commit(const StepResult& result) {
    s->Commit(result, &outcome);
    s->CheckInvariants();
    return outcome;
  }
  const CommitOutcome& Run(int32_t token = kDrawn) { return Commit(Answer(Plan(), token)); }
  void RunToTheEnd() {
    for (int i = 0; i < 1000 && s->HasWork(); ++i) Run();
    ASSERT_FALSE(s->HasWork());
  }
  static Tokens QueryTokens(const BatchPlan& plan, size_t e) {
    const auto begin = plan.tokens.begin() + plan.entries[e].token_begin;
    return {begin, begin + plan.entries[e].query_tokens};
  }

  std::unique_ptr<Scheduler> s;
  CommitOutcome outcome;
  int64_t now = 1;
};

}  // namespace sluice::schedule
