#include "engine/timeline_notes.h"

namespace sluice::engine {
namespace {

using EventKind = TimelineEvent::Kind;

// An event that draws has so many steps before the next begins, so that long answers show where
// they slowed down.
constexpr int32_t kStepsOfEvent = 32;

// Once so many events are used, an event goes on as long as its kind does, and moments are only
// counted: the rest is for changes of kind.
constexpr size_t kEventsOfDetail = Timeline::kEventsMax / 2;

// The newest event of a choice; null: it has none.
TimelineEvent* LastOf(int choice, Timeline* timeline) {
  for (auto event = timeline->events.rbegin(); event != timeline->events.rend(); ++event) {
    if (event->choice == choice) return &*event;
  }
  return nullptr;
}

bool Joins(const TimelineEvent& last, EventKind kind, size_t events) {
  if (events == Timeline::kEventsMax) return last.steps > 0;
  if (last.kind != kind) return false;
  return events >= kEventsOfDetail || (kind == EventKind::kDecode && last.steps < kStepsOfEvent);
}

void AddMoment(EventKind kind, uint64_t step, int64_t now_us, uint8_t choice, Timeline* timeline) {
  if (timeline->events.size() >= kEventsOfDetail) return;
  timeline->events.push_back(
      {.kind = kind, .choice = choice, .first_step = step, .begin_us = now_us, .end_us = now_us});
}

}  // namespace

void NoteTime(int64_t Timeline::*what, int64_t now_us, Timeline* timeline) {
  if (timeline == nullptr) return;
  std::lock_guard lock(timeline->mutex);
  timeline->*what = now_us;
}

void NoteStep(const StepNote& note, Timeline* timeline) {
  const auto choice = static_cast<uint8_t>(note.choice);
  const EventKind kind = note.draws ? EventKind::kDecode : EventKind::kPrefill;
  std::lock_guard lock(timeline->mutex);
  if (timeline->admitted_us == 0) timeline->admitted_us = note.admitted_us;
  std::vector<TimelineEvent>& events = timeline->events;
  if (note.starts && LastOf(choice, timeline) != nullptr) {
    ++timeline->preemptions;
    AddMoment(EventKind::kPreempted, note.step, note.now_us, choice, timeline);
  }
  TimelineEvent* const last = LastOf(choice, timeline);
  if (last != nullptr && Joins(*last, kind, events.size())) {
    ++last->steps;
    last->tokens += note.tokens;
    last->sequences += note.sequences;
  } else if (events.size() < Timeline::kEventsMax) {
    events.push_back({.kind = kind,
                      .choice = choice,
                      .steps = 1,
                      .first_step = note.step,
                      .begin_us = note.now_us,
                      .tokens = note.tokens,
                      .sequences = note.sequences});
  }
}

void NoteStepEnd(uint64_t step, int64_t now_us, int choice, Timeline* timeline) {
  std::lock_guard lock(timeline->mutex);
  if (timeline->first_chunk_us == 0) timeline->first_chunk_us = now_us;
  // A step behind this one may have begun the next event already.
  for (auto event = timeline->events.rbegin(); event != timeline->events.rend(); ++event) {
    if (event->choice != choice || event->steps == 0 || event->first_step > step) continue;
    event->end_us = now_us;
    return;
  }
}

void NoteOutcome(const schedule::SequenceOutcome& outcome, int64_t now_us, Timeline* timeline) {
  std::lock_guard lock(timeline->mutex);
  if (outcome.choice == 0) {
    timeline->prompt_tokens = outcome.prompt_tokens;
    timeline->cached_tokens = outcome.cached_tokens;
  }
  if (outcome.token_count == 0) return;
  if (timeline->first_token_us == 0) timeline->first_token_us = now_us;
  timeline->drawn += outcome.token_count;
  timeline->drafted += outcome.drafted;
  timeline->accepted += outcome.accepted;
}

void NoteLateMask(uint64_t step, int64_t now_us, int choice, Timeline* timeline) {
  std::lock_guard lock(timeline->mutex);
  ++timeline->late_masks;
  AddMoment(EventKind::kLateMask, step, now_us, static_cast<uint8_t>(choice), timeline);
}

}  // namespace sluice::engine
