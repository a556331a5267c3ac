// Scheduler: the decisions of a step turned into a BatchPlan, and booked for Commit.
#include <algorithm>

#include "base/check.h"
#include "batch/draft_tree.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {
namespace {

// The tokens whose KV all sequences together can have, as long as they share none: what plans tell
// at most, whole tables included.
int64_t KvTokensMax(const SchedulerOptions& options, std::span<const batch::KvGroup> groups) {
  int64_t most = static_cast<int64_t>(options.max_num_seqs) * options.max_model_len;
  for (const batch::KvGroup& group : groups) {
    if (group.kind == batch::KvKind::kFull)
      most = std::min(most, int64_t{group.num_blocks} * group.block_tokens);
  }
  return most;
}

// Makes room for the largest plan, once per buffer: a step allocates nothing. Only the block tables
// of sequences that share prefixes may pass it.
void Reserve(const SchedulerOptions& options, std::span<const batch::KvGroup> groups,
             batch::BatchPlan* plan) {
  const size_t sequences = static_cast<size_t>(options.max_num_seqs);
  plan->entries.reserve(sequences);
  plan->tokens.reserve(options.max_batch_tokens);
  plan->logits_rows.reserve(sequences + options.max_extra_rows);
  plan->parents.reserve(options.draft_trees ? options.max_extra_rows : 0);
  plan->groups.resize(groups.size());
  const int64_t tokens = KvTokensMax(options, groups);
  for (size_t g = 0; g < groups.size(); ++g) {
    plan->groups[g].begin.reserve(sequences + 1);
    plan->groups[g].first.reserve(sequences);
    plan->groups[g].ids.reserve(tokens / groups[g].kernel_block_tokens + sequences);
  }
}

void Clear(batch::BatchPlan* plan) {
  plan->guesses = -1;
  plan->entries.clear();
  plan->tokens.clear();
  plan->logits_rows.clear();
  plan->parents.clear();
  for (batch::GroupTable& table : plan->groups) {
    table.begin.assign(1, 0);
    table.first.clear();
    table.ids.clear();
  }
  plan->copies.clear();
  plan->starts.clear();
}

}  // namespace

void Scheduler::FillPlan(batch::BatchPlan* plan) {
  Reserve(options_, kv_.groups(), plan);
  Clear(plan);
  plan->step = step_;
  Step step;
  if (!spare_steps_.empty()) {
    step = std::move(spare_steps_.back());
    spare_steps_.pop_back();
  }
  step.id = step_;
  step.entries.clear();
  step.entries.reserve(options_.max_num_seqs);
  step.parts.clear();
  if (policy_->SharesByClient()) {
    step.parts.reserve(options_.max_num_seqs);
    for (const Scheduled& scheduled : scheduled_)
      step.parts.push_back({scheduled.sequence->client->id, scheduled.query, scheduled.prompt});
  }
  in_flight_.push_back(std::move(step));
  for (const blocks::Copy& copy : copies_) {
    plan->copies.push_back({copy.group, copy.source, copy.destination});
  }
  // Single tokens first: a backend may run them by another kernel than longer runs.
  for (const bool single : {true, false}) {
    for (const Scheduled& scheduled : scheduled_) {
      if ((scheduled.query == 1) == single) AppendEntry(scheduled, plan);
    }
  }
  for (const batch::PlanEntry& entry : plan->entries) {
    if (entry.guesses > 0) plan->guesses = std::min(plan->guesses, entry.guesses);
  }
  for (const Scheduled& scheduled : scheduled_)
    scheduled.sequence->guessed = scheduled.guesses > 0 ? plan->guesses : 0;
  CHECK(static_cast<int32_t>(plan->tokens.size()) <= options_.max_batch_tokens);
}

void Scheduler::AppendEntry(const Scheduled& scheduled, batch::BatchPlan* plan) {
  Sequence& sequence = *scheduled.sequence;
  const int32_t first = sequence.planned;
  const int32_t known = static_cast<int32_t>(sequence.tokens.size());
  batch::PlanEntry& entry = plan->entries.emplace_back();
  entry.sequence = sequence.spec.id;
  entry.slot = sequence.slot;
  entry.first_position = first;
  entry.unsure = sequence.unsure;
  entry.query_tokens = scheduled.query;
  entry.token_begin = static_cast<int32_t>(plan->tokens.size());
  const int32_t sure = scheduled.query - scheduled.drafts;
  for (int32_t i = 0; i < scheduled.query; ++i) {
    if (i >= sure) {
      plan->tokens.push_back(scheduled.known ? batch::KnownToken(i - sure + 1)
                                             : sequence.drafts[i - sure]);
    } else if (first + i < known) {
      plan->tokens.push_back(sequence.tokens[first + i]);
    } else {
      CHECK(sequence.unknown_tokens == 1 && sequence.last_step + 1 == step_, "first=", first);
      plan->tokens.push_back(batch::kLastDrawn);
    }
  }
  const int32_t spare = scheduled.guesses > 0 ? options_.draft_spare : 0;
  const int32_t written = first + scheduled.query + scheduled.guesses + spare;
  for (size_t g = 0; g < plan->groups.size(); ++g) {
    batch::GroupTable& table = plan->groups[g];
    table.first.push_back(
        kv_.TellKernelTable(&sequence.kv, static_cast<int32_t>(g), written, &table.ids));
    table.begin.push_back(static_cast<int32_t>(table.ids.size()));
  }
  if (sequence.slot_started == 0) {
    sequence.slot_started = step_;
    plan->starts.push_back(
        {sequence.slot, sequence.spec.sampling, sequence.prompt_tokens, sequence.tokens});
  }
  entry.told_whole = sequence.slot_started;
  Booked booked{.id = sequence.spec.id,
                .generation = sequence.generation,
                .slot = sequence.slot,
                .query = scheduled.query,
                .drafts = scheduled.drafts,
                .forced = sequence.forced && !scheduled.known};
  AppendRows(scheduled, plan, &booked);
  entry.second_text = sequence.spec.second_text;
  entry.masked = sequence.spec.masked && booked.samples;
  entry.guesses = scheduled.guesses;
  if (IsGuessed(sequence)) plan->guesses = std::max(plan->guesses, 0);
  if (entry.guesses > 0)
    plan->guesses = std::max(plan->guesses, std::min(WorthyDrafts(sequence), entry.guesses));
  if (const int32_t end = first + scheduled.query; !booked.samples)
    entry.next_token = end < known ? sequence.tokens[end] : 0;
  sequence.planned += scheduled.query;
  sequence.unknown_tokens += booked.samples ? 1 : 0;
  sequence.unsure += scheduled.drafts;
  sequence.drawn_in_slot = booked.samples;
  sequence.awaits_commit = false;
  sequence.drafts.clear();
  sequence.parents.clear();
  sequence.aside = std::max(0, sequence.aside - scheduled.query);
  sequence.last_step = step_;
  ++sequence.in_flight;
  in_flight_.back().entries.push_back(booked);
}

// The rows of the entry that was appended last.
void Scheduler::AppendRows(const Scheduled& scheduled, batch::BatchPlan* plan, Booked* booked) {
  Sequence& sequence = *scheduled.sequence;
  batch::PlanEntry& entry = plan->entries.back();
  const int32_t first = sequence.planned;
  const int32_t end = first + scheduled.query;
  entry.logits_begin = static_cast<int32_t>(plan->logits_rows.size());
  const auto parents =
      std::span(sequence.parents)
          .first(std::min(sequence.parents.size(), static_cast<size_t>(scheduled.drafts)));
  const auto add_row = [&](int32_t position, int32_t target, batch::RowPurpose purpose) {
    plan->logits_rows.push_back({entry.token_begin + position - first, target, purpose});
  };
  for (int32_t p = std::max(first, sequence.scored); p < std::min(end, sequence.to_score()); ++p) {
    add_row(p, sequence.tokens[p + 1], batch::RowPurpose::kScore);
    ++booked->score_count;
  }
  if (scheduled.drafts > 0) {
    const int32_t root = end - 1 - scheduled.drafts;
    const bool tree = batch::FirstBranch(parents) < static_cast<int32_t>(parents.size());
    if (tree) entry.tree = static_cast<int32_t>(plan->parents.size());
    if (tree) plan->parents.insert(plan->parents.end(), parents.begin(), parents.end());
    for (int32_t i = 0; i <= scheduled.drafts; ++i) {
      // The draft behind it, or the first one.
      int32_t next = i;
      if (tree)
        next = static_cast<int32_t>(std::find(parents.begin(), parents.end(), i) - parents.begin());
      const bool follows = next < scheduled.drafts;
      add_row(root + i, follows ? plan->tokens[entry.token_begin + root - first + next + 1] : -1,
              batch::RowPurpose::kVerify);
    }
    booked->samples = true;
  } else if (end == sequence.length() && !sequence.done_drawing()) {
    add_row(end - 1, -1, batch::RowPurpose::kSample);
    booked->samples = true;
  }
  entry.logits_count = static_cast<int32_t>(plan->logits_rows.size()) - entry.logits_begin;
}

}  // namespace sluice::schedule
