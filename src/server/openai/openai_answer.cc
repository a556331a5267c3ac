#include "server/openai/openai_answer.h"

#include "base/str_cat.h"
#include "server/http/errors.h"
#include "server/http/sse.h"
#include "server/openai/logprobs.h"

namespace sluice::server {
namespace {

// A choice that failed or was cancelled has no reason here: its call ends with an error.
OrderedJson FinishJson(FinishReason reason) {
  const bool ended = reason == FinishReason::kStop || reason == FinishReason::kLength ||
                     reason == FinishReason::kToolCalls || reason == FinishReason::kTimeout;
  return ended ? OrderedJson(Name(reason)) : OrderedJson(nullptr);
}

const std::vector<TokenInfo>& PromptTokensOf(const Choice& choice) {
  static const std::vector<TokenInfo> none;
  return choice.prompt_tokens ? *choice.prompt_tokens : none;
}

OrderedJson FunctionCallJson(const ToolCallDelta& call) {
  OrderedJson json;
  json["id"] = call.id;
  json["type"] = "function";
  json["function"] = OrderedJson{{"name", call.name}, {"arguments", call.arguments}};
  return json;
}

// Of a stream: its first piece says whom it calls.
OrderedJson CallPieceJson(const ToolCallDelta& call) {
  OrderedJson json;
  json["index"] = call.index;
  if (call.name.empty()) {
    json["function"] = OrderedJson{{"arguments", call.arguments}};
  } else {
    json.update(FunctionCallJson(call));
  }
  return json;
}

}  // namespace

OrderedJson UsageJson(const Usage& usage) {
  OrderedJson json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.completion_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  json["prompt_tokens_details"] = OrderedJson{{"cached_tokens", usage.cached_tokens}};
  json["completion_tokens_details"] =
      OrderedJson{{"accepted_prediction_tokens", usage.accepted_tokens},
                  {"rejected_prediction_tokens", usage.rejected_tokens}};
  AddDraftNotes(usage, &json["completion_tokens_details"]);
  return json;
}

OrderedJson OpenAiAnswer::TokenIds(const std::vector<TokenInfo>& tokens) {
  OrderedJson ids = OrderedJson::array();
  for (const TokenInfo& token : tokens) ids.push_back(token.id);
  return ids;
}

TokenNames OpenAiAnswer::Names() const {
  return call_.names_ids ? TokenNames::kIds : TokenNames::kTexts;
}

std::string OpenAiAnswer::TokenIdsMember(const TextDelta& delta) const {
  return call_.shows_ids ? StrCat(",\"token_ids\":", DumpJson(TokenIds(delta.tokens))) : "";
}

std::string OpenAiAnswer::PromptIdsMember(const TextDelta& delta) {
  if (delta.prompt_ids.empty()) return "";
  return StrCat(",\"prompt_token_ids\":", DumpJson(OrderedJson(delta.prompt_ids)));
}

OpenAiAnswer::OpenAiAnswer(const ApiCall& call, AnswerHead head)
    : call_(call),
      head_(std::move(head)),
      id_(StrCat(call.chat ? "chatcmpl-" : "cmpl-", head_.request_id)) {
  OrderedJson json;
  json["id"] = id_;
  json["object"] = call_.chat ? "chat.completion.chunk" : "text_completion";
  json["created"] = head_.created;
  json["model"] = call_.model;
  json["system_fingerprint"] = head_.fingerprint;
  chunk_head_ = DumpJson(json);
  chunk_head_.back() = ',';
}

const std::string& OpenAiAnswer::EchoOf(int index) const {
  const int told = call_.best_n.value_or(call_.requests.front().n);
  return head_.echoes.at(static_cast<size_t>(index / told));
}

OrderedJson OpenAiAnswer::StopReason(const std::string& match) const {
  const std::string stop = StopStringOf(call_, match);
  return stop.empty() ? OrderedJson(nullptr) : OrderedJson(stop);
}

OrderedJson OpenAiAnswer::Message(const Choice& choice) const {
  OrderedJson json = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  if (call_.shows_reasoning && !choice.reasoning.empty()) {
    json["reasoning_content"] = choice.reasoning;
  }
  if (choice.tool_calls.empty()) return json;
  if (choice.text.empty()) json["content"] = nullptr;
  for (const ToolCallDelta& call : choice.tool_calls) {
    json["tool_calls"].push_back(FunctionCallJson(call));
  }
  return json;
}

OrderedJson OpenAiAnswer::WholeChoice(int index, const Choice& choice) const {
  OrderedJson json;
  json["index"] = index;
  OrderedJson logprobs = nullptr;
  if (call_.chat) {
    json["message"] = Message(choice);
    if (call_.logprobs) logprobs = ChatLogprobs(choice.tokens, *call_.logprobs, Names());
  } else {
    json["text"] = call_.echo ? EchoOf(index) + choice.text : choice.text;
    if (call_.logprobs) {
      int64_t offset = 0;
      std::vector<TokenInfo> tokens;
      if (call_.echo && choice.prompt_tokens) tokens = *choice.prompt_tokens;
      tokens.insert(tokens.end(), choice.tokens.begin(), choice.tokens.end());
      logprobs = CompletionLogprobs(tokens, &offset, Names());
    }
  }
  json["logprobs"] = std::move(logprobs);
  json["finish_reason"] = FinishJson(choice.finish);
  json["stop_reason"] = StopReason(choice.stop_match);
  if (call_.shows_ids) json["token_ids"] = TokenIds(choice.tokens);
  if (choice.prompt_ids != nullptr && !call_.chat) json["prompt_token_ids"] = *choice.prompt_ids;
  if (call_.requests.size() > 1) json["seed"] = choice.seed;
  if (call_.prompt_logprobs && !call_.chat) {
    json["prompt_logprobs"] = PromptLogprobs(PromptTokensOf(choice));
  }
  return json;
}

std::string OpenAiAnswer::Whole(const std::vector<Choice>& choices, const Usage& usage) {
  OrderedJson json;
  json["id"] = id_;
  json["object"] = call_.chat ? "chat.completion" : "text_completion";
  json["created"] = head_.created;
  json["model"] = call_.model;
  json["system_fingerprint"] = head_.fingerprint;
  json["choices"] = OrderedJson::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].finish == FinishReason::kAbsent) continue;
    json["choices"].push_back(WholeChoice(static_cast<int>(i), choices[i]));
  }
  json["usage"] = UsageJson(usage);
  json["seed"] = choices.front().seed;
  if (choices.front().prompt_ids != nullptr && call_.chat) {
    json["prompt_token_ids"] = *choices.front().prompt_ids;
  }
  if (call_.prompt_logprobs && call_.chat) {
    json["prompt_logprobs"] = PromptLogprobs(PromptTokensOf(choices.front()));
  }
  return DumpJson(json);
}

std::string OpenAiAnswer::Chunk(const std::string& choices, const TextDelta* last,
                                const std::string& more) const {
  std::string chunk = StrCat(chunk_head_, "\"choices\":[", choices, "]", more);
  if (call_.include_usage) chunk += ",\"usage\":null";
  if (last != nullptr) chunk += StrCat(",\"seed\":", last->seed);
  return chunk + "}";
}

std::string OpenAiAnswer::ChatChoice(int index, const TextDelta& delta) const {
  OrderedJson logprobs = nullptr;
  if (call_.logprobs && !delta.tokens.empty()) {
    logprobs = ChatLogprobs(delta.tokens, *call_.logprobs, Names());
  }
  OrderedJson parts = OrderedJson::object();
  if (call_.shows_reasoning && !delta.reasoning.empty()) {
    parts["reasoning_content"] = delta.reasoning;
  }
  for (const ToolCallDelta& call : delta.tool_calls) {
    parts["tool_calls"].push_back(CallPieceJson(call));
  }
  if (!delta.text.empty() || parts.empty()) parts["content"] = delta.text;
  return StrCat("{\"index\":", index, ",\"delta\":", DumpJson(parts),
                ",\"logprobs\":", DumpJson(logprobs), TokenIdsMember(delta),
                ",\"finish_reason\":null}");
}

std::string OpenAiAnswer::CompletionChoice(int index, const TextDelta& delta,
                                           Choice* choice) const {
  std::string text = delta.text;
  std::vector<TokenInfo> tokens;
  if (call_.echo) {
    if (!choice->begun) text = EchoOf(index) + text;
    tokens = delta.prompt_tokens;
  }
  OrderedJson logprobs = nullptr;
  if (call_.logprobs) {
    tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
    logprobs = CompletionLogprobs(tokens, &choice->text_offset, Names());
  }
  const bool ends = delta.finish != FinishReason::kNone;
  return StrCat("{\"index\":", index, ",\"text\":", DumpJson(Json(text)),
                ",\"logprobs\":", DumpJson(logprobs), TokenIdsMember(delta), PromptIdsMember(delta),
                ",\"finish_reason\":", DumpJson(FinishJson(delta.finish)),
                ",\"stop_reason\":", DumpJson(ends ? StopReason(delta.stop_match) : nullptr), "}");
}

std::vector<std::string> OpenAiAnswer::Chunks(int index, const TextDelta& delta,
                                              Choice* choice) const {
  std::vector<std::string> chunks;
  const bool ends = delta.finish != FinishReason::kNone;
  const bool shows_tokens = (call_.logprobs || call_.shows_ids) && !delta.tokens.empty();
  if (!call_.chat) {
    const bool echoes = call_.echo && !choice->begun;
    if (!delta.text.empty() || shows_tokens || ends || echoes) {
      chunks.push_back(Chunk(CompletionChoice(index, delta, choice), ends ? &delta : nullptr));
      choice->begun = true;
    }
    return chunks;
  }
  if (!choice->begun) {
    chunks.push_back(Chunk(StrCat("{\"index\":", index,
                                  ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                                  "\"logprobs\":null,\"finish_reason\":null}"),
                           nullptr, PromptIdsMember(delta)));
    choice->begun = true;
  }
  const bool shows_reasoning = call_.shows_reasoning && !delta.reasoning.empty();
  if (!delta.text.empty() || shows_reasoning || !delta.tool_calls.empty() || shows_tokens) {
    chunks.push_back(Chunk(ChatChoice(index, delta), nullptr));
  }
  if (ends) {
    const std::string end = StrCat(
        "{\"index\":", index,
        ",\"delta\":{},\"logprobs\":null,\"finish_reason\":", DumpJson(FinishJson(delta.finish)),
        ",\"stop_reason\":", DumpJson(StopReason(delta.stop_match)), "}");
    chunks.push_back(Chunk(end, &delta));
  }
  return chunks;
}

std::string OpenAiAnswer::Event(int index, const TextDelta& delta, Choice* choice) {
  std::string bytes;
  for (const std::string& chunk : Chunks(index, delta, choice)) bytes += SseEvent(chunk);
  return bytes;
}

std::string OpenAiAnswer::End(const std::vector<Choice>&, const Usage& usage) {
  if (!call_.include_usage) return SseDone();
  return StrCat(
      SseEvent(StrCat(chunk_head_, "\"choices\":[],\"usage\":", DumpJson(UsageJson(usage)), "}")),
      SseDone());
}

std::string OpenAiAnswer::Broken(const Status& status) { return SseEvent(ErrorBody(status)); }

}  // namespace sluice::server
