// Reads one streamed answer of /v1/completions into an Outcome. One thread at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "cli/load/outcome.h"
#include "cli/load/sse_reader.h"

namespace sluice::load {

class AnswerReader {
 public:
  // The outcome is filled while bytes come, and must outlive the reader.
  explicit AnswerReader(Outcome* outcome) : outcome_(*outcome) {}

  // Bytes of the body that came at `now_us`.
  void Add(std::string_view bytes, int64_t now_us);
  // No more bytes come. The outcome is then completed or failed: an answer without its end was cut.
  void Finish(int64_t now_us);

 private:
  void OnData(std::string_view data, int64_t now_us);
  void Fail(std::string_view failure, std::string_view detail);

  Outcome& outcome_;
  SseReader events_;
  bool ended_ = false;  // by a finish reason or [DONE]
};

// What the body of an error says: its sentence where it is JSON as OpenAI's errors, else its first
// bytes.
std::string ErrorSentence(std::string_view body);

}  // namespace sluice::load
