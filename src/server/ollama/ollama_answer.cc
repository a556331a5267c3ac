#include "server/ollama/ollama_answer.h"

#include <cmath>
#include <ctime>

#include "server/http/errors.h"
#include "server/ollama/ollama_api.h"
#include "server/openai/logprobs.h"

namespace sluice::server {
namespace {

// Arguments that are no JSON object, as the model wrote them, stand in one.
OrderedJson CallJson(const ToolCallDelta& call) {
  auto parsed = ParseOrderedJson(call.arguments, "arguments");
  OrderedJson arguments = parsed.ok() && parsed->is_object()
                              ? std::move(parsed).value()
                              : OrderedJson{{"arguments", call.arguments}};
  OrderedJson function{{"index", call.index}, {"name", call.name}};
  function["arguments"] = std::move(arguments);
  return OrderedJson{{"id", call.id}, {"function", std::move(function)}};
}

int64_t Nanoseconds(double ms) { return std::llround(ms * 1e6); }

}  // namespace

OllamaAnswer::OllamaAnswer(const ApiCall& call, AnswerHead) : call_(call) {}

OrderedJson OllamaAnswer::Piece(const std::string& text, const std::string& thinking) const {
  OrderedJson json;
  json["model"] = call_.model;
  json["created_at"] = Rfc3339(std::time(nullptr));
  if (call_.chat) {
    json["message"] = OrderedJson{{"role", "assistant"}, {"content", text}};
    if (!thinking.empty()) json["message"]["thinking"] = thinking;
  } else {
    json["response"] = text;
    if (!thinking.empty()) json["thinking"] = thinking;
  }
  json["done"] = false;
  return json;
}

void OllamaAnswer::AddEnd(const Choice& choice, const Usage& usage, OrderedJson* json) const {
  OrderedJson& end = *json;
  end["done"] = true;
  end["done_reason"] = IsCut(choice.finish) ? "length" : "stop";
  end["total_duration"] = Nanoseconds(usage.queue_ms + usage.prefill_ms + usage.decode_ms);
  end["load_duration"] = 0;
  end["prompt_eval_count"] = usage.prompt_tokens;
  end["prompt_eval_duration"] = Nanoseconds(usage.prefill_ms);
  end["eval_count"] = usage.completion_tokens;
  end["eval_duration"] = Nanoseconds(usage.decode_ms);
  AddDraftNotes(usage, &end);
}

std::string OllamaAnswer::Whole(const std::vector<Choice>& choices, const Usage& usage) {
  const Choice& choice = choices.front();
  OrderedJson json = Piece(choice.text, choice.reasoning);
  for (const ToolCallDelta& call : choice.tool_calls) {
    json["message"]["tool_calls"].push_back(CallJson(call));
  }
  if (call_.logprobs) json["logprobs"] = ChatLogprobs(choice.tokens, *call_.logprobs)["content"];
  AddEnd(choice, usage, &json);
  return DumpJson(json);
}

std::string OllamaAnswer::Event(int, const TextDelta& delta, Choice*) {
  for (const ToolCallDelta& piece : delta.tool_calls) {
    if (piece.name.empty()) {
      calls_.back().arguments += piece.arguments;
    } else {
      calls_.push_back(piece);
    }
  }
  const bool shows_tokens = call_.logprobs && !delta.tokens.empty();
  if (delta.text.empty() && delta.reasoning.empty() && !shows_tokens) return "";
  OrderedJson json = Piece(delta.text, delta.reasoning);
  if (shows_tokens) json["logprobs"] = ChatLogprobs(delta.tokens, *call_.logprobs)["content"];
  return DumpJson(json) + "\n";
}

std::string OllamaAnswer::End(const std::vector<Choice>& choices, const Usage& usage) {
  std::string bytes;
  if (!calls_.empty()) {  // which Ollama's clients take whole
    OrderedJson json = Piece("", "");
    for (const ToolCallDelta& call : calls_) {
      json["message"]["tool_calls"].push_back(CallJson(call));
    }
    bytes = DumpJson(json) + "\n";
  }
  OrderedJson json = Piece("", "");
  AddEnd(choices.front(), usage, &json);
  return bytes + DumpJson(json) + "\n";
}

std::string OllamaAnswer::Broken(const Status& status) {
  return ErrorBody(status, ErrorForm::kOllama) + "\n";
}

}  // namespace sluice::server
