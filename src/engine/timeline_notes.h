// What the engine notes in the timeline of a request. Any thread; a step allocates nothing for it.
#pragma once

#include <cstdint>

#include "schedule/scheduler.h"
#include "sluice/timeline.h"

namespace sluice::engine {

// Notes when something came to be. `timeline` may be null.
void NoteTime(int64_t Timeline::*what, int64_t now_us, Timeline* timeline);

// `sequence` is computed in the step `plan` by `tokens` tokens, beside `sequences` - 1 others.
struct StepNote {
  uint64_t step = 0;
  int64_t now_us = 0;
  int choice = 0;
  int64_t tokens = 0, sequences = 0;
  bool draws = false;
  bool starts = false;  // takes a place: not for the first time if it was preempted
  int64_t admitted_us = 0;
};
void NoteStep(const StepNote& note, Timeline* timeline);

// A step that computed something of a choice has ended.
void NoteStepEnd(uint64_t step, int64_t now_us, int choice, Timeline* timeline);

// What a step gave.
void NoteOutcome(const schedule::SequenceOutcome& outcome, int64_t now_us, Timeline* timeline);

// The mask of a choice came too late for the step.
void NoteLateMask(uint64_t step, int64_t now_us, int choice, Timeline* timeline);

}  // namespace sluice::engine
