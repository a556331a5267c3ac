// What happened to a request on its way through the engine, for people who ask why it took as long
// as it did. Whoever makes a Timeline puts it into a Request; the engine writes while others read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace sluice {

// Steps of one choice behind one another that did the same, or a moment.
struct TimelineEvent {
  enum class Kind : uint8_t {
    kPrefill,    // steps that computed a chunk of the prompt each
    kDecode,     // steps that drew
    kPreempted,  // a moment: it had lost its place, and the next step computes it again
    kLateMask,  // a moment: the mask of its grammar was not ready, and the step drew nothing for it
  };
  Kind kind = Kind::kPrefill;
  uint8_t choice = 0;
  int32_t steps = 0;
  uint64_t first_step = 0;
  int64_t begin_us = 0;   // when the first of its steps was planned
  int64_t end_us = 0;     // when the newest of them that has ended had done so; 0: none has
  int64_t tokens = 0;     // computed, drafts included
  int64_t sequences = 0;  // in those steps with it, summed over them
};

// Times are microseconds of one steady clock; 0: not yet.
struct Timeline {
  // Of a longer story steps of one kind are told as one, and moments are only counted.
  static constexpr size_t kEventsMax = 64;

  Timeline() { events.reserve(kEventsMax); }

  mutable std::mutex mutex;  // guards the rest
  int64_t submitted_us = 0;
  int64_t queued_us = 0;       // it had its tokens and its grammar, and waited for a place
  int64_t admitted_us = 0;     // the first of its choices
  int64_t first_chunk_us = 0;  // the first step that computed a part of its prompt had ended
  int64_t first_token_us = 0;  // of any choice
  int64_t ended_us = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0;  // of the first choice
  int64_t drawn = 0, drafted = 0, accepted = 0;  // tokens of all choices
  int64_t preemptions = 0, late_masks = 0;
  std::vector<TimelineEvent> events;
};

}  // namespace sluice
