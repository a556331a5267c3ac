#include "engine/timeline_notes.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

using Kind = TimelineEvent::Kind;

StepNote Note(uint64_t step, bool draws, int choice = 0) {
  return {.step = step,
          .now_us = static_cast<int64_t>(step) * 100,
          .choice = choice,
          .tokens = draws ? 2 : 64,
          .sequences = 3,
          .draws = draws};
}

TEST(TimelineNotes, EachChunkIsAnEventAndStepsThatDrawJoin) {
  Timeline timeline;
  NoteStep(Note(1, false), &timeline);
  NoteStep(Note(2, false), &timeline);
  for (uint64_t step = 3; step < 8; ++step) {
    NoteStep(Note(step, true), &timeline);
    NoteStepEnd(step, static_cast<int64_t>(step) * 100 + 90, 0, &timeline);
  }
  ASSERT_EQ(timeline.events.size(), 3u);
  EXPECT_EQ(timeline.events[1].kind, Kind::kPrefill);
  EXPECT_EQ(timeline.events[1].first_step, 2u);
  EXPECT_EQ(timeline.events[1].tokens, 64);
  const TimelineEvent& decode = timeline.events[2];
  EXPECT_EQ(decode.kind, Kind::kDecode);
  EXPECT_EQ(decode.steps, 5);
  EXPECT_EQ(decode.tokens, 10);
  EXPECT_EQ(decode.sequences, 15);
  EXPECT_EQ(decode.begin_us, 300);
  EXPECT_EQ(decode.end_us, 790);
}

// The times of a clock of the test's own, in which each step takes 80 us.
TEST(TimelineNotes, APrefillOfOneStepHasABeginningAndAnEnd) {
  Timeline timeline;
  StepNote note = Note(1, false);
  note.admitted_us = 95;
  NoteStep(note, &timeline);
  EXPECT_EQ(timeline.admitted_us, 95);
  EXPECT_EQ(timeline.first_chunk_us, 0);
  EXPECT_EQ(timeline.events[0].begin_us, 100);
  EXPECT_EQ(timeline.events[0].end_us, 0);  // it runs
  NoteStepEnd(1, 180, 0, &timeline);
  EXPECT_EQ(timeline.events[0].end_us, 180);
  NoteStep(Note(2, true), &timeline);
  NoteStepEnd(2, 280, 0, &timeline);
  EXPECT_EQ(timeline.events[0].end_us, 180);
  EXPECT_EQ(timeline.events[1].end_us, 280);
  EXPECT_EQ(timeline.first_chunk_us, 180);
  EXPECT_EQ(timeline.admitted_us, 95);
}

// Where a step is planned before the one in front of it has ended.
TEST(TimelineNotes, TheEndOfAStepIsThatOfItsOwnEvent) {
  Timeline timeline;
  NoteStep(Note(1, false, 0), &timeline);
  NoteStep(Note(1, false, 1), &timeline);
  NoteStep(Note(2, false, 0), &timeline);
  NoteLateMask(2, 205, 0, &timeline);
  NoteStepEnd(1, 250, 0, &timeline);
  EXPECT_EQ(timeline.events[0].end_us, 250);
  EXPECT_EQ(timeline.events[1].end_us, 0);
  EXPECT_EQ(timeline.events[2].end_us, 0);
  EXPECT_EQ(timeline.events[3].end_us, 205);  // a moment
  NoteStepEnd(1, 250, 1, &timeline);
  EXPECT_EQ(timeline.events[1].end_us, 250);
  NoteStepEnd(2, 350, 0, &timeline);
  EXPECT_EQ(timeline.events[2].end_us, 350);
  EXPECT_EQ(timeline.first_chunk_us, 250);
}

TEST(TimelineNotes, ChoicesHaveEventsOfTheirOwn) {
  Timeline timeline;
  for (uint64_t step = 1; step < 5; ++step) {
    for (int choice = 0; choice < 2; ++choice) NoteStep(Note(step, true, choice), &timeline);
  }
  ASSERT_EQ(timeline.events.size(), 2u);
  EXPECT_EQ(timeline.events[1].choice, 1);
  EXPECT_EQ(timeline.events[1].steps, 4);
}

TEST(TimelineNotes, APlaceTakenAgainWasLost) {
  Timeline timeline;
  StepNote note = Note(1, false);
  note.starts = true;
  NoteStep(note, &timeline);
  EXPECT_EQ(timeline.preemptions, 0);
  NoteStep(Note(2, true), &timeline);
  note = Note(7, false);
  note.starts = true;
  NoteStep(note, &timeline);
  EXPECT_EQ(timeline.preemptions, 1);
  ASSERT_EQ(timeline.events.size(), 4u);
  EXPECT_EQ(timeline.events[2].kind, Kind::kPreempted);
  EXPECT_EQ(timeline.events[2].first_step, 7u);
}

TEST(TimelineNotes, NothingIsAllocatedHoweverLongTheAnswer) {
  Timeline timeline;
  const TimelineEvent* const place = timeline.events.data();
  constexpr int64_t kSteps = 100'000;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    NoteStep(Note(step, step % 7 != 0), &timeline);
    if (step % 5 == 0) NoteLateMask(step, 0, 0, &timeline);
  }
  EXPECT_EQ(timeline.events.data(), place);
  EXPECT_EQ(timeline.events.size(), Timeline::kEventsMax);
  EXPECT_EQ(timeline.late_masks, kSteps / 5);
}

TEST(TimelineNotes, ALongAnswerIsToldInParts) {
  Timeline timeline;
  int64_t steps = 0;
  for (uint64_t step = 1; step <= 5000; ++step) NoteStep(Note(step, true), &timeline);
  EXPECT_GT(timeline.events.size(), 20u);
  EXPECT_LT(timeline.events.size(), Timeline::kEventsMax);
  for (const TimelineEvent& event : timeline.events) steps += event.steps;
  EXPECT_EQ(steps, 5000);
}

TEST(TimelineNotes, OutcomesAddUp) {
  Timeline timeline;
  schedule::SequenceOutcome outcome;
  outcome.prompt_tokens = 12;
  outcome.cached_tokens = 8;
  NoteOutcome(outcome, 100, &timeline);  // of a scored chunk
  EXPECT_EQ(timeline.first_token_us, 0);
  outcome.token_count = 3;
  outcome.drafted = 4;
  outcome.accepted = 2;
  NoteOutcome(outcome, 200, &timeline);
  outcome.choice = 1;
  outcome.cached_tokens = 0;
  NoteOutcome(outcome, 300, &timeline);
  EXPECT_EQ(timeline.first_token_us, 200);
  EXPECT_EQ(timeline.cached_tokens, 8);
  EXPECT_EQ(timeline.drawn, 6);
  EXPECT_EQ(timeline.drafted, 8);
  EXPECT_EQ(timeline.accepted, 4);
}

}  // namespace
}  // namespace sluice::engine
