// Scheduler::Commit: what a step gave, booked on the sequences that are still there.
#include <algorithm>

#include "base/check.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {
namespace {

FinishReason ReasonOf(const SequenceSpec& spec, int32_t drawn, int32_t id) {
  if (spec.sampling.MayEnd(drawn - 1)) {
    const std::span<const int32_t> ends(spec.end_ids);
    const FinishReason end = EndOf(id, spec.ignore_eos ? ends.first(0) : ends, spec.stop_ids);
    if (end != FinishReason::kNone) return end;
  }
  return drawn >= spec.max_tokens ? FinishReason::kLength : FinishReason::kNone;
}

}  // namespace

void Scheduler::Describe(const Sequence& sequence, SequenceOutcome* out) {
  out->id = sequence.spec.id;
  out->handle = sequence.spec.handle;
  out->choice = sequence.spec.sampling.choice;
  out->prompt_tokens = sequence.prompt_tokens;
  out->cached_tokens = sequence.cached_tokens;
  out->drawn = sequence.drawn();
  out->admitted_us = sequence.admitted_us;
}

Scheduler::Step Scheduler::TakeOldestStep(uint64_t id) {
  CHECK(!in_flight_.empty() && in_flight_[0].id == id, "step ", id, " is not the oldest");
  Step step = std::move(in_flight_[0]);
  in_flight_.erase(in_flight_.begin());
  committed_ = id;
  committed_parts_.swap(step.parts);
  return step;
}

void Scheduler::Commit(const batch::StepResult& result, CommitOutcome* outcome) {
  outcome->sequences.clear();
  outcome->moves.clear();
  outcome->sequences.reserve(options_.max_num_seqs);
  outcome->answers.Reset(result.step);
  Step step = TakeOldestStep(result.step);
  CHECK(result.entries.size() == step.entries.size(), "entries=", result.entries.size());
  for (size_t i = 0; i < step.entries.size(); ++i) {
    CommitEntry(step.entries[i], result, result.entries[i], outcome);
  }
  Retire();
  spare_steps_.push_back(std::move(step));
}

void Scheduler::Fail(uint64_t id, CommitOutcome* outcome) {
  outcome->sequences.clear();
  outcome->moves.clear();
  Step step = TakeOldestStep(id);
  for (const Booked& booked : step.entries) {
    const auto it = sequences_.find(booked.id);
    if (it == sequences_.end()) continue;
    if (it->second->beams != nullptr) {
      EndBeams(it->second.get(), FinishReason::kError, outcome);
      continue;
    }
    SequenceOutcome& out = outcome->sequences.emplace_back();
    Describe(*it->second, &out);
    out.finish = FinishReason::kError;
    End(it->second.get(), FinishReason::kError);
  }
  Retire();
  spare_steps_.push_back(std::move(step));
}

bool Scheduler::Postpone(SequenceId id) {
  CHECK(!in_flight_.empty(), "no plan is uncommitted");
  std::vector<Booked>& entries = in_flight_.back().entries;
  const auto booked =
      std::find_if(entries.begin(), entries.end(), [id](const Booked& b) { return b.id == id; });
  CHECK(booked != entries.end() && booked->samples && !booked->postponed, "sequence ", id);
  booked->postponed = true;
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return false;
  it->second->drawn_in_slot = false;
  if (booked->drafts > 0) return true;  // Commit, which the next plan waits for, rolls back
  Sequence* const sequence = it->second.get();
  booked->samples = false;
  --sequence->unknown_tokens;
  if (HasStates()) {
    Requeue(sequence);
  } else {
    --booked->query;
    --sequence->planned;
  }
  return true;
}

// Null when it has ended. A slot has no other sequence before the last step that names it has been
// committed; a preempted sequence has left its slot.
Sequence* Scheduler::FindBooked(const Booked& booked) {
  Sequence* const sequence = by_slot_[booked.slot];
  if (sequence != nullptr && sequence->spec.id == booked.id) return sequence;
  const auto it = sequences_.find(booked.id);
  return it == sequences_.end() ? nullptr : it->second.get();
}

void Scheduler::CommitEntry(const Booked& booked, const batch::StepResult& result,
                            const batch::ResultEntry& entry, CommitOutcome* outcome) {
  CHECK(entry.sequence == booked.id, "sequence ", entry.sequence, " instead of ", booked.id);
  const bool degenerate = entry.status == batch::RowStatus::kDegenerate;
  CHECK(entry.token_count <= booked.drafts + 1 &&
            (degenerate || entry.token_count > 0) ==
                (degenerate || (booked.samples && !booked.postponed)),
        "sequence ", booked.id, " got ", entry.token_count, " tokens");
  CHECK(entry.aside >= 0 && entry.aside < std::max(1, entry.token_count), "aside=", entry.aside);
  CHECK(degenerate || entry.score_count == booked.score_count, "scores=", entry.score_count);
  Sequence* sequence = FindBooked(booked);
  if (sequence == nullptr) return;  // ended meanwhile: what it drew is dropped
  --sequence->in_flight;
  sequence->unknown_tokens -= booked.samples ? 1 : 0;
  sequence->unsure -= booked.drafts;
  SequenceOutcome& out = outcome->sequences.emplace_back();
  out.score_begin = entry.score_begin;
  out.score_count = entry.score_count;
  out.vector_begin = entry.vector_begin;
  out.vector_size = entry.vector_size;
  sequence->scored += entry.score_count;
  // What follows a beam is chosen when all of its search have been booked.
  const bool beam = sequence->beams != nullptr;
  if (!beam) out.finish = TakeTokens(sequence, result, entry, &out);
  FairShare::Charge(FairShare::kDrawnTokenCost * (beam ? entry.token_count : out.token_count),
                    sequence->client);
  AdvanceKv(sequence, booked, entry);
  if (booked.drafts > 0 && !booked.postponed) CountDrafts(booked, entry, &out);
  if (sequence->spec.max_tokens == 0 && sequence->computed == sequence->prompt_tokens) {
    out.finish = FinishReason::kLength;
  }
  // The degenerate row is the last one: a stop before it came first.
  if (degenerate && (beam || out.token_count == entry.token_count)) {
    if (!beam) out.finish = FinishReason::kError;
  } else if (booked.generation == sequence->generation) {
    kv_.Publish(sequence->tokens, sequence->computed, &sequence->kv);
  }
  Describe(*sequence, &out);
  if (out.finish != FinishReason::kNone) {
    End(sequence, out.finish);
  } else if (out.token_count == 0 && out.score_count == 0) {
    outcome->sequences.pop_back();
  }
  if (beam) CommitBeam(booked, result, entry, sequence, outcome);
}

// Appends what was drawn, up to and including the token that ends the sequence.
FinishReason Scheduler::TakeTokens(Sequence* sequence, const batch::StepResult& result,
                                   const batch::ResultEntry& entry, SequenceOutcome* out) {
  out->token_begin = entry.token_begin;
  for (int32_t i = 0; i < entry.token_count; ++i) {
    const int32_t id = result.tokens[entry.token_begin + i].id;
    sequence->tokens.push_back(id);
    ++out->token_count;
    const FinishReason reason = ReasonOf(sequence->spec, sequence->drawn(), id);
    if (reason != FinishReason::kNone) return reason;
  }
  return FinishReason::kNone;
}

// The last token of the entry was drawn behind the drafts before it, which were all accepted.
void Scheduler::CountDrafts(const Booked& booked, const batch::ResultEntry& entry,
                            SequenceOutcome* out) {
  const int32_t accepted = std::max(0, entry.token_count - 1);
  out->drafted = booked.drafts;
  out->accepted = std::min(accepted, out->token_count);
  ++totals_.verified;
  totals_.drafted += static_cast<uint64_t>(booked.drafts);
  totals_.accepted += static_cast<uint64_t>(accepted);
  if (booked.forced) {
    totals_.forced += static_cast<uint64_t>(booked.drafts);
    totals_.forced_accepted += static_cast<uint64_t>(accepted);
  }
  totals_.aside += static_cast<uint64_t>(entry.aside);
  for (int32_t i = 0; i < accepted; ++i) ++totals_.accepted_at[i];
}

void Scheduler::AdvanceKv(Sequence* sequence, const Booked& booked,
                          const batch::ResultEntry& entry) {
  if (booked.generation != sequence->generation) {  // preempted meanwhile: the KV is gone
    return;
  }
  if (booked.drafts == 0) {
    sequence->computed += booked.query;
    return;
  }
  // Rejected drafts are forgotten: their positions are computed again. So are those that were right
  // aside of a tree's first branch, whose KV lies elsewhere: the next step does so on its way.
  const int32_t known = static_cast<int32_t>(sequence->tokens.size());
  const int32_t before = booked.query - booked.drafts - 1;
  const int32_t kept =
      std::min(before + entry.token_count - entry.aside, known - sequence->computed);
  sequence->computed += kept;
  sequence->planned -= booked.query - kept;
  sequence->aside = entry.aside;
}

}  // namespace sluice::schedule
