#include "server/anthropic/anthropic_answer.h"

#include "base/str_cat.h"
#include "server/http/sse.h"

namespace sluice::server {
namespace {

// Their input tokens leave out those that came from the cache.
OrderedJson MessageUsage(const Usage& usage) {
  OrderedJson json;
  json["input_tokens"] = usage.prompt_tokens - usage.cached_tokens;
  json["cache_creation_input_tokens"] = 0;
  json["cache_read_input_tokens"] = usage.cached_tokens;
  json["output_tokens"] = usage.completion_tokens;
  AddDraftNotes(usage, &json);
  return json;
}

// Arguments that are no JSON object, as the model wrote them, stand in one.
OrderedJson InputOf(const std::string& arguments) {
  auto parsed = ParseOrderedJson(arguments, "arguments");
  if (parsed.ok() && parsed->is_object()) return std::move(parsed).value();
  return OrderedJson{{"arguments", arguments}};
}

OrderedJson ToolUse(const ToolCallDelta& call, OrderedJson input) {
  return OrderedJson{
      {"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", std::move(input)}};
}

std::string Named(const OrderedJson& json) {
  return SseEvent(json["type"].get_ref<const std::string&>(), DumpJson(json));
}

}  // namespace

AnthropicAnswer::AnthropicAnswer(const ApiCall& call, AnswerHead head)
    : call_(call), id_("msg_" + head.request_id) {}

OrderedJson AnthropicAnswer::Message() const {
  OrderedJson json;
  json["id"] = id_;
  json["type"] = "message";
  json["role"] = "assistant";
  json["model"] = call_.model;
  json["content"] = OrderedJson::array();
  json["stop_reason"] = nullptr;
  json["stop_sequence"] = nullptr;
  return json;
}

std::string AnthropicAnswer::StopReason(const Choice& choice) const {
  if (IsCut(choice.finish)) return "max_tokens";
  if (choice.finish == FinishReason::kToolCalls) return "tool_use";
  return StopStringOf(call_, choice.stop_match).empty() ? "end_turn" : "stop_sequence";
}

OrderedJson AnthropicAnswer::StopSequence(const Choice& choice) const {
  const std::string stop = StopStringOf(call_, choice.stop_match);
  return stop.empty() ? OrderedJson(nullptr) : OrderedJson(stop);
}

std::string AnthropicAnswer::Whole(const std::vector<Choice>& choices, const Usage& usage) {
  const Choice& choice = choices.front();
  OrderedJson json = Message();
  OrderedJson& content = json["content"];
  if (!choice.reasoning.empty()) {
    const std::string shown = call_.shows_reasoning ? choice.reasoning : "";
    content.push_back(OrderedJson{{"type", "thinking"}, {"thinking", shown}, {"signature", ""}});
  }
  if (!choice.text.empty()) {
    content.push_back(OrderedJson{{"type", "text"}, {"text", choice.text}});
  }
  for (const ToolCallDelta& call : choice.tool_calls) {
    content.push_back(ToolUse(call, InputOf(call.arguments)));
  }
  json["stop_reason"] = StopReason(choice);
  json["stop_sequence"] = StopSequence(choice);
  json["usage"] = MessageUsage(usage);
  return DumpJson(json);
}

std::string AnthropicAnswer::Start(const Usage& usage) {
  if (std::exchange(started_, true)) return "";
  OrderedJson message = Message();
  message["usage"] = MessageUsage(usage);
  return StrCat(Named(OrderedJson{{"type", "message_start"}, {"message", std::move(message)}}),
                Named(OrderedJson{{"type", "ping"}}));
}

std::string AnthropicAnswer::BeginBlock(Block kind, OrderedJson content) {
  if (open_ == kind) return "";
  const std::string ended = EndBlock();
  open_ = kind;
  return ended + Named(OrderedJson{{"type", "content_block_start"},
                                   {"index", block_},
                                   {"content_block", std::move(content)}});
}

std::string AnthropicAnswer::GrowBlock(OrderedJson delta) const {
  return Named(
      OrderedJson{{"type", "content_block_delta"}, {"index", block_}, {"delta", std::move(delta)}});
}

std::string AnthropicAnswer::EndBlock() {
  if (std::exchange(open_, Block::kNone) == Block::kNone) return "";
  return Named(OrderedJson{{"type", "content_block_stop"}, {"index", block_++}});
}

std::string AnthropicAnswer::Event(int, const TextDelta& delta, Choice*) {
  std::string bytes = Start(delta.usage);
  if (!delta.reasoning.empty()) {
    bytes += BeginBlock(Block::kThinking,
                        OrderedJson{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
    if (call_.shows_reasoning) {
      bytes += GrowBlock(OrderedJson{{"type", "thinking_delta"}, {"thinking", delta.reasoning}});
    }
  }
  if (!delta.text.empty()) {
    bytes += BeginBlock(Block::kText, OrderedJson{{"type", "text"}, {"text", ""}});
    bytes += GrowBlock(OrderedJson{{"type", "text_delta"}, {"text", delta.text}});
  }
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (!call.name.empty()) {  // the first piece of a call
      bytes += EndBlock();
      bytes += BeginBlock(Block::kToolUse, ToolUse(call, OrderedJson::object()));
    }
    if (call.arguments.empty()) continue;
    bytes += GrowBlock(OrderedJson{{"type", "input_json_delta"}, {"partial_json", call.arguments}});
  }
  return bytes;
}

std::string AnthropicAnswer::End(const std::vector<Choice>& choices, const Usage& usage) {
  const Choice& choice = choices.front();
  const OrderedJson delta{{"stop_reason", StopReason(choice)},
                          {"stop_sequence", StopSequence(choice)}};
  return StrCat(EndBlock(),
                Named(OrderedJson{
                    {"type", "message_delta"}, {"delta", delta}, {"usage", MessageUsage(usage)}}),
                Named(OrderedJson{{"type", "message_stop"}}));
}

std::string AnthropicAnswer::Broken(const Status& status) {
  return SseEvent("error", ErrorBody(status, ErrorForm::kAnthropic));
}

}  // namespace sluice::server
