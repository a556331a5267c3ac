// What became of one request of a load. A value; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::load {

struct Outcome {
  enum class End {
    kNotSent,    // the run ended before its turn
    kCutOff,     // the run ended before its answer
    kCompleted,  // its answer came whole
    kFailed,
  };
  End end = End::kNotSent;

  // Microseconds, as NowMicros gives them.
  int64_t due_us = 0;             // when it should have been sent; then it waits for a connection
  int64_t sent_us = 0;            // when it was
  std::vector<int64_t> chunk_us;  // when each piece of the answer that had text came
  int64_t last_us = 0;            // when the last piece of the answer came

  int input_tokens = 0;   // as the server counts them; 0: it does not say
  int output_tokens = 0;  // likewise; where it does not say, the pieces with text

  // Of a failure: what it is in few words, which many may share ("HTTP 429"), and what was said
  // about this one, or nothing.
  std::string failure, detail;
};

}  // namespace sluice::load
