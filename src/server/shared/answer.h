// How an API tells an answer, from the engine's events: one format per API, for whole answers and
// for streams. A value per call, whose functions are called one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "server/http/reply_bytes.h"
#include "server/shared/api_call.h"
#include "sluice/engine.h"

namespace sluice::server {

// One answer of one prompt as it grows.
struct Choice {
  std::string text, reasoning;
  std::vector<ToolCallDelta> tool_calls;  // whole, by index
  std::vector<TokenInfo> tokens;          // kept for log-probs alone
  // Of its prompt, shared by its choices; null: none came.
  std::shared_ptr<const std::vector<TokenInfo>> prompt_tokens;
  std::shared_ptr<const std::vector<int32_t>> prompt_ids;  // likewise
  FinishReason finish = FinishReason::kNone;               // kAbsent: nobody is told of it
  std::string stop_match;
  uint64_t seed = 0;
  bool begun = false;       // a chunk of it has been sent
  int64_t text_offset = 0;  // characters whose log-probs have been sent
  double logprob_sum = 0;   // of its tokens, where they have log-probs
  int logprob_count = 0;
};

// What an answer says beside what the engine does.
struct AnswerHead {
  std::string request_id;
  int64_t created = 0;  // seconds since the epoch
  std::string fingerprint;
  std::vector<std::string> echoes;  // the prompts' texts, where the call has echo
};

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // By which the client knows the answer; empty: it is not told one.
  virtual std::string id() const { return {}; }

  // Of a stream.
  virtual const char* stream_type() const { return kEventStream; }

  // The body of the whole answer. `choices` are in the order of prompts, then of n.
  virtual std::string Whole(const std::vector<Choice>& choices, const Usage& usage) = 0;

  // The following are not called of an API that has no streams. The bytes of a stream that one
  // event becomes, perhaps none. Updates `choice`.
  virtual std::string Event(int, const TextDelta&, Choice*) { return {}; }
  // What ends a stream that went well, and one that failed.
  virtual std::string End(const std::vector<Choice>&, const Usage&) { return {}; }
  virtual std::string Broken(const Status&) { return {}; }

  // The following are of an API whose answers clients may ask for by their ids before they have
  // ended. What a stream begins with, where it is to begin before a token has come.
  virtual std::string Begin() { return {}; }
  // The body of the answer as far as it has come; nothing: the API has none.
  virtual std::optional<std::string> Now() const { return std::nullopt; }
  // Ends it, as its client no longer wants it, and gives what ends a stream of it. REQUIRES: Now
  // gives a body, which is the whole answer's from here on.
  virtual std::string Cancel() { return {}; }
};

template <class Format>
std::unique_ptr<AnswerFormat> MakeFormat(const ApiCall& call, AnswerHead head) {
  return std::make_unique<Format>(call, std::move(head));
}

// Whether a limit has cut an answer: its length or its time.
constexpr bool IsCut(FinishReason finish) {
  return finish == FinishReason::kLength || finish == FinishReason::kTimeout;
}

// The error of a call whose requests the engine has cancelled though its client had not asked.
Status CancelledByServer();

// What a client is told of drafts, whichever API it uses: that they were taken by lot, or verified
// by rejection. Nothing where neither is so.
void AddDraftNotes(const Usage& usage, OrderedJson* json);

// `match` where it is one of the call's stop strings, else empty: the text of a stop token is no
// client's business.
std::string StopStringOf(const ApiCall& call, const std::string& match);

}  // namespace sluice::server
