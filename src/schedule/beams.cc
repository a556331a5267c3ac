// Scheduler: beam searches. Each beam is a sequence with slot and blocks of its own, so that a step
// computes beams like others; what differs is that its tokens are chosen by BeamSearch when all
// beams of the search have their rows, and that a beam which is continued twice is forked.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/str_cat.h"
#include "schedule/beam_search.h"
#include "schedule/scheduler.h"

namespace sluice::schedule {

std::span<Sequence* const> Scheduler::Together(Sequence* const& sequence) {
  if (sequence->beams == nullptr) return {&sequence, 1};
  return sequence->beams->members;
}

bool Scheduler::InFlight(Sequence* const& sequence) {
  const auto together = Together(sequence);
  return std::any_of(together.begin(), together.end(),
                     [](const Sequence* member) { return member->in_flight > 0; });
}

bool Scheduler::FollowsIn(const Sequence& sequence) {
  return sequence.beams != nullptr && sequence.beams->members[0] != &sequence;
}

Status Scheduler::CheckBeams(const SequenceSpec& spec) const {
  if (spec.beams == nullptr) return OkStatus();
  const int32_t width = spec.beams->width();
  if (HasStates()) {
    return InvalidArgument(
        "The model has layers that keep one running state, which beams cannot share; send the "
        "request without use_beam_search.",
        "use_beam_search");
  }
  if (width > options_.max_num_seqs) {
    return InvalidArgument(
        StrCat("The search has ", width, " beams, but at most ", options_.max_num_seqs,
               " sequences run at once (--max-num-seqs); ask for fewer or raise that."),
        "beam_width");
  }
  return OkStatus();
}

void Scheduler::EnqueueBeams(SequenceSpec spec, int64_t now_us) {
  const int32_t width = spec.beams->width();
  auto group = std::make_shared<BeamGroup>(
      BeamGroup{.search = {*spec.beams, spec.ignore_eos ? std::vector<int32_t>() : spec.end_ids,
                           spec.stop_ids, spec.max_tokens}});
  spec.no_overlap = true;
  SequenceSpec other = spec;
  other.prompt = {};
  other.prompt_logprobs = false;
  Sequence* const first = Enqueue(std::move(spec), 0, now_us);
  group->members = group->beams = {first};
  for (int32_t i = 1; i < width; ++i) {
    SequenceSpec next = other;
    next.id += static_cast<SequenceId>(i);
    next.sampling.choice = i;
    Sequence* const member = Enqueue(std::move(next), 0, now_us);
    member->prompt_tokens = first->prompt_tokens;
    queued_tokens_ += member->prompt_tokens;
    group->members.push_back(member);
  }
  for (Sequence* member : group->members) member->beams = group;
}

void Scheduler::DropBeam(SequenceId id) {
  Sequence* const sequence = sequences_.at(id).get();
  CHECK(sequence->beams != nullptr, "sequence ", id, " is no beam");
  std::vector<Sequence*>& stuck = sequence->beams->stuck;
  if (std::find(stuck.begin(), stuck.end(), sequence) == stuck.end()) stuck.push_back(sequence);
}

void Scheduler::CommitBeam(const Booked& booked, const batch::StepResult& result,
                           const batch::ResultEntry& entry, Sequence* sequence,
                           CommitOutcome* outcome) {
  BeamGroup& group = *sequence->beams;
  if (entry.status == batch::RowStatus::kDegenerate) {
    return EndBeams(sequence, FinishReason::kError, outcome);
  }
  // What was preempted meanwhile gets its row again, so that no step names it when tokens change.
  if (entry.token_count == 0 || booked.generation != sequence->generation) return;
  const batch::ResultToken& token = result.tokens[entry.token_begin];
  const auto beam = std::find(group.beams.begin(), group.beams.end(), sequence);
  CHECK(beam != group.beams.end(), "sequence ", sequence->spec.id, " is no beam");
  const bool stuck =
      std::find(group.stuck.begin(), group.stuck.end(), sequence) != group.stuck.end();
  const size_t candidates = stuck ? 0 : static_cast<size_t>(token.top_count);
  group.search.Take(static_cast<int32_t>(beam - group.beams.begin()),
                    std::span(result.top).subspan(token.top_begin, candidates));
  if (!group.search.ready()) return;
  group.stuck.clear();
  if (group.search.Advance()) {
    FollowBeams(&group, outcome);
  } else {
    EndBeams(sequence, FinishReason::kNone, outcome);
  }
}

// Gives the beams that were chosen to the sequences. The best continuation of a beam stays where
// that is; others take the sequences that are left over and get the KV of their parents in the next
// plan.
void Scheduler::FollowBeams(BeamGroup* group, CommitOutcome* outcome) {
  const std::vector<BeamSearch::Beam>& chosen = group->search.beams();
  const std::vector<Sequence*> before = std::exchange(group->beams, {});
  group->beams.resize(chosen.size());
  std::vector<Sequence*> unused = group->members;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto place = std::find(unused.begin(), unused.end(), before[chosen[i].parent]);
    if (place == unused.end()) continue;
    group->beams[i] = *place;
    unused.erase(place);
  }
  const auto tell = [&](const Sequence& beam, const Sequence& parent, int32_t token) {
    if (!beam.spec.masked) return;
    outcome->moves.push_back({.handle = beam.spec.handle,
                              .member = beam.spec.sampling.choice,
                              .parent = parent.spec.sampling.choice,
                              .token = token});
  };
  std::vector<size_t> stay;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (group->beams[i] != nullptr) {
      stay.push_back(i);
      continue;
    }
    const Sequence& parent = *before[chosen[i].parent];
    Sequence* const beam = group->beams[i] = unused.back();
    unused.pop_back();
    LeaveTokens(beam);
    beam->tokens.assign(parent.tokens.begin(), parent.tokens.end());
    beam->tokens.push_back(chosen[i].token);
    beam->fork_parent = parent.spec.id;
    tell(*beam, parent, chosen[i].token);
  }
  // Last, so that the others had their parents' tokens as they were.
  for (const size_t i : stay) {
    group->beams[i]->tokens.push_back(chosen[i].token);
    tell(*group->beams[i], *group->beams[i], chosen[i].token);
  }
  for (Sequence* sequence : unused) LeaveTokens(sequence);
}

// The sequence is no beam any more; its slot stays.
void Scheduler::LeaveTokens(Sequence* sequence) {
  CHECK(sequence->in_flight == 0 && sequence->state == SequenceState::kRunning, "sequence ",
        sequence->spec.id);
  sequence->tokens.clear();
  sequence->kv.hashes.clear();
  sequence->computed = sequence->planned = 0;
  sequence->slot_started = 0;
  sequence->fork_parent = 0;
  ++sequence->generation;
  kv_.Close(&sequence->kv, sequence->last_step);
  kv_.Open(sequence->spec.key, sequence->spec.prefix_cache, &sequence->kv);
}

// False: there is no memory for it in this step.
bool Scheduler::ForkBeam(Sequence* sequence, Budget* budget) {
  const Sequence* const parent = Find(sequence->fork_parent);
  CHECK(parent != nullptr && parent->state == SequenceState::kRunning, sequence->fork_parent);
  const auto known = static_cast<int32_t>(sequence->tokens.size()) - 1;
  CHECK(parent->computed >= known, "known=", known);
  if (!kv_.Holds(parent->kv, known)) {  // the parent went on first; it is computed from the prompt
    sequence->fork_parent = 0;
    return false;
  }
  while (!kv_.Fork(parent->kv, known, step_, &sequence->kv, &copies_)) {
    budget->memory_short = true;
    std::fill(need_.begin(), need_.end(), 1);
    if (kv_.Covers(need_, /*soon=*/true) || !PreemptBehind(*sequence, budget)) return false;
  }
  sequence->computed = sequence->planned = known;
  sequence->fork_parent = 0;
  return true;
}

void Scheduler::EndBeams(Sequence* sequence, FinishReason reason, CommitOutcome* outcome) {
  const std::shared_ptr<BeamGroup> group = sequence->beams;
  const BeamSearch& search = group->search;
  const auto found = static_cast<int32_t>(search.answers().size());
  // How the answer of this number ends, where the search is over.
  const auto finish_of = [&](int32_t i) {
    if (reason != FinishReason::kNone) return reason;
    if (found == 0) return FinishReason::kError;
    return i < found ? search.answers()[i].finish : FinishReason::kAbsent;
  };
  for (int32_t i = 0; outcome != nullptr && i < search.options().answers; ++i) {
    SequenceOutcome& out = outcome->sequences.emplace_back();
    Describe(*group->members[0], &out);
    out.choice = i;
    out.beam = true;
    out.finish = finish_of(i);
    out.drawn = 0;
    out.token_begin = static_cast<int32_t>(outcome->answers.tokens.size());
    if (reason != FinishReason::kNone || i >= found) continue;
    const BeamSearch::Answer& answer = search.answers()[i];
    out.logprob = answer.logprob;
    out.token_count = out.drawn = search.Tell(answer, &outcome->answers);
  }
  for (size_t i = 0; i < group->members.size(); ++i) {
    const auto number = static_cast<int32_t>(i);
    const bool answers = number < search.options().answers;
    End(group->members[i], answers ? finish_of(number) : FinishReason::kNone);
  }
}

}  // namespace sluice::schedule
