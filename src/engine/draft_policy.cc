#include "engine/draft_policy.h"

#include <algorithm>

namespace sluice::engine {

StepKind StepKind::Of(const batch::BatchPlan& plan) {
  StepKind kind;
  kind.tokens = static_cast<int32_t>(plan.tokens.size());
  kind.guesses = plan.guesses > 0;
  int64_t contexts = 0;
  bool decodes = true;
  for (const batch::PlanEntry& entry : plan.entries) {
    decodes = decodes && entry.query_tokens == entry.logits_count;
    contexts += entry.first_position + entry.query_tokens;
    // More than what it draws and what a step may compute once more.
    kind.prompts |= entry.query_tokens > entry.logits_count + limits::kDraftTokensMax;
  }
  const auto sequences = static_cast<int32_t>(plan.entries.size());
  kind.decoding = {.sequences = decodes ? sequences : 0,
                   .context = static_cast<int32_t>(contexts / std::max(sequences, 1))};
  return kind;
}

int32_t DraftPolicy::Coming(const schedule::Scheduler& scheduler) const {
  const schedule::SchedulerStats stats = scheduler.Stats();
  return std::clamp(stats.running + stats.waiting, 1, head_->slots());
}

void DraftPolicy::BeforePlan(schedule::Scheduler* scheduler) const {
  if (head_ == nullptr) return;
  scheduler->LimitFirstDrafts(head_->ForFirst(draft_gain_.Rests(Coming(*scheduler))));
}

void DraftPolicy::Learn(const StepKind& step, int64_t took_us,
                        const schedule::CommitOutcome& outcome) {
  const int32_t sequences = step.decoding.sequences;
  const double seconds = 1e-6 * static_cast<double>(took_us);
  if (step.prompts) verify_cost_.ObserveTokens(step.tokens, seconds);
  if (sequences == 0) return;
  const int32_t drafts = step.tokens - sequences;
  // A step that verifies guesses of a head, and makes none, costs neither the one nor the other.
  const bool whole = head_ == nullptr || (drafts > 0) == step.guesses;
  const bool known = !whole || verify_cost_.Observe(step.decoding, drafts, seconds);
  if (head_ == nullptr || !known) return;
  int64_t tokens = 0;
  for (const schedule::SequenceOutcome& out : outcome.sequences) tokens += out.token_count;
  draft_gain_.Observe(sequences, drafts > 0 || step.guesses, tokens, seconds,
                      verify_cost_.Plain(sequences));
}

speculate::DraftCosts DraftPolicy::Committed(const StepKind& step, int64_t took_us, bool cold,
                                             const batch::StepResult& result,
                                             const schedule::CommitOutcome& outcome,
                                             schedule::Scheduler* scheduler) {
  if (took_us > 0 && !cold) Learn(step, took_us, outcome);
  Decoding next{.sequences = std::max(static_cast<int32_t>(outcome.sequences.size()), 1),
                .context = step.decoding.context};
  if (step.prompts && head_ != nullptr)
    next.sequences = std::max(next.sequences, Coming(*scheduler));
  HeadDrafts::Prospect prospect{.rests = draft_gain_.Rests(next.sequences),
                                .prompts = step.prompts};
  prospect.costs = step.prompts ? verify_cost_.NextBesidePrompts(next) : verify_cost_.Next(next);
  if (head_ != nullptr) head_->Choose(result, outcome, prospect, scheduler);
  return prospect.costs;
}

}  // namespace sluice::engine
