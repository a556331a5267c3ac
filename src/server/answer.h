// OpenAI's answer objects from the engine's events: whole ones and the chunks of a stream, for chat
// and for plain completions. A value per call; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/api_call.h"
#include "sluice/engine.h"

namespace sluice::server {

// One answer of one prompt as it grows.
struct Choice {
  std::string text, reasoning;
  std::vector<ToolCallDelta> tool_calls;  // whole, by index
  std::vector<TokenInfo> tokens;          // kept for log-probs alone
  // Of its prompt, shared by its choices; null: none came.
  std::shared_ptr<const std::vector<TokenInfo>> prompt_tokens;
  FinishReason finish = FinishReason::kNone;
  std::string stop_match;
  uint64_t seed = 0;
  bool begun = false;       // a chunk of it has been sent
  int64_t text_offset = 0;  // characters whose log-probs have been sent
};

struct AnswerHead {
  std::string id;  // "chatcmpl-..."
  int64_t created = 0;
  std::string fingerprint;
};

class AnswerFormat {
 public:
  // `echoes`: the prompts' texts, one per request, where the call has echo. `call` must outlive it.
  AnswerFormat(const ApiCall& call, AnswerHead head, std::vector<std::string> echoes);

  // The whole object. `choices` are in the order of prompts, then of n.
  std::string Whole(const std::vector<Choice>& choices, const Usage& usage) const;

  // The chunks that one event becomes, as JSON texts. Updates `choice`.
  std::vector<std::string> Chunks(int index, const TextDelta& delta, Choice* choice) const;
  // The chunk after all others, where usage was asked for.
  std::string UsageChunk(const Usage& usage) const;

 private:
  std::string Chunk(const std::string& choices, const TextDelta* last) const;
  OrderedJson Message(const Choice& choice) const;
  std::string ChatChoice(int index, const TextDelta& delta) const;
  std::string CompletionChoice(int index, const TextDelta& delta, Choice* choice) const;
  OrderedJson WholeChoice(int index, const Choice& choice) const;
  OrderedJson StopReason(const std::string& match) const;
  const std::string& EchoOf(int index) const;

  const ApiCall& call_;
  const AnswerHead head_;
  const std::vector<std::string> echoes_;
  std::string chunk_head_;  // everything before the choices of a chunk
};

OrderedJson UsageJson(const Usage& usage);

// The text of a token alone; bytes that are not UTF-8 show as OpenAI shows them:
// bytes:\xe2\x80
std::string TokenText(const std::string& bytes);

}  // namespace sluice::server
