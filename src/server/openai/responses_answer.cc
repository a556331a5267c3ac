#include "server/openai/responses_answer.h"

#include <ctime>

#include "base/clock.h"
#include "base/str_cat.h"
#include "server/http/sse.h"

namespace sluice::server {
namespace {

// As OpenAI's clients know what went wrong.
const char* ErrorCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kTooLarge:
      return "invalid_prompt";
    case StatusCode::kResourceExhausted:
      return "rate_limit_exceeded";
    default:
      return "server_error";
  }
}

}  // namespace

ResponsesAnswer::ResponsesAnswer(const ApiCall& call, AnswerHead head, ResponsesCall asked,
                                 std::string owner, ResponseStore* store)
    : call_(call),
      head_(std::move(head)),
      asked_(std::move(asked)),
      owner_(std::move(owner)),
      store_(store),
      id_(call.stream_id) {}

std::string ResponsesAnswer::Typed(std::string_view type, OrderedJson fields) {
  OrderedJson json;
  json["type"] = type;
  json["sequence_number"] = sequence_++;
  json.update(fields);
  return SseEvent(type, DumpJson(json));
}

OrderedJson ResponsesAnswer::Response(std::string_view status) const {
  OrderedJson json;
  json["id"] = id_;
  json["object"] = "response";
  json["created_at"] = head_.created;
  json["status"] = status;
  json["background"] = asked_.background;
  json["error"] = nullptr;
  json["incomplete_details"] = nullptr;
  json["model"] = call_.model;
  json["output"] = output_;
  json["truncation"] = "disabled";
  json["usage"] = nullptr;
  json.update(asked_.shown);
  return json;
}

std::string ResponsesAnswer::Start() {
  if (sequence_ > 0) return "";
  const OrderedJson response{{"response", Response("in_progress")}};
  std::string bytes = Typed("response.created", response);
  return bytes + Typed("response.in_progress", response);
}

const char* ResponsesAnswer::PrefixOf(Item kind) {
  return kind == Item::kReasoning ? "rs_" : kind == Item::kMessage ? "msg_" : "fc_";
}

std::string ResponsesAnswer::TextEvent(const char* what) const {
  return StrCat(open_.kind == Item::kReasoning ? "response.reasoning_text."
                : open_.kind == Item::kMessage ? "response.output_text."
                                               : "response.function_call_arguments.",
                what);
}

OrderedJson ResponsesAnswer::OfItem() const {
  return OrderedJson{{"output_index", output_.size()}};
}

OrderedJson ResponsesAnswer::OfText() const {
  OrderedJson json{{"item_id", open_.id}, {"output_index", output_.size()}};
  if (open_.kind != Item::kCall) json["content_index"] = 0;
  return json;
}

OrderedJson ResponsesAnswer::PartJson(const std::string& text) const {
  if (open_.kind == Item::kReasoning) {
    return OrderedJson{{"type", "reasoning_text"}, {"text", text}};
  }
  return OrderedJson{{"type", "output_text"},
                     {"text", text},
                     {"annotations", OrderedJson::array()},
                     {"logprobs", OrderedJson::array()}};
}

OrderedJson ResponsesAnswer::ItemJson(std::string_view status, bool whole) const {
  OrderedJson item{{"id", open_.id}};
  item["type"] = open_.kind == Item::kReasoning ? "reasoning"
                 : open_.kind == Item::kMessage ? "message"
                                                : "function_call";
  item["status"] = status;
  if (open_.kind == Item::kCall) {
    item["call_id"] = open_.call_id;
    item["name"] = open_.name;
    item["arguments"] = whole ? open_.text : "";
    return item;
  }
  if (open_.kind == Item::kMessage) item["role"] = "assistant";
  if (open_.kind == Item::kReasoning) item["summary"] = OrderedJson::array();
  item["content"] = OrderedJson::array();
  if (whole) item["content"].push_back(PartJson(open_.text));
  return item;
}

std::string ResponsesAnswer::BeginItem(Item kind, const ToolCallDelta& call) {
  std::string bytes = EndItem("completed");
  open_ = {kind, StrCat(PrefixOf(kind), head_.request_id, "_", output_.size()), "", call.id,
           call.name};
  OrderedJson added = OfItem();
  added["item"] = ItemJson("in_progress", false);
  bytes += Typed("response.output_item.added", std::move(added));
  if (open_.kind == Item::kCall) return bytes;
  OrderedJson part = OfText();
  part["part"] = PartJson("");
  return bytes + Typed("response.content_part.added", std::move(part));
}

std::string ResponsesAnswer::GrowItem(const std::string& text) {
  open_.text += text;
  OrderedJson delta = OfText();
  delta["delta"] = text;
  if (open_.kind == Item::kMessage) delta["logprobs"] = OrderedJson::array();
  return Typed(TextEvent("delta"), std::move(delta));
}

std::string ResponsesAnswer::EndItem(std::string_view status) {
  if (open_.kind == Item::kNone) return "";
  OrderedJson done = OfText(), item = OfItem();
  done[open_.kind == Item::kCall ? "arguments" : "text"] = open_.text;
  if (open_.kind == Item::kMessage) done["logprobs"] = OrderedJson::array();
  if (open_.kind == Item::kCall) done["name"] = open_.name;
  std::string bytes = Typed(TextEvent("done"), std::move(done));
  if (open_.kind != Item::kCall) {
    OrderedJson part = OfText();
    part["part"] = PartJson(open_.text);
    bytes += Typed("response.content_part.done", std::move(part));
  }
  item["item"] = ItemJson(status, true);
  OrderedJson ended = item["item"];
  bytes += Typed("response.output_item.done", std::move(item));
  output_.push_back(std::move(ended));
  open_ = {};
  return bytes;
}

std::string ResponsesAnswer::Take(const TextDelta& delta) {
  std::string bytes;
  if (!delta.reasoning.empty()) {
    if (open_.kind != Item::kReasoning) {
      bytes += BeginItem(Item::kReasoning);
    }
    bytes += GrowItem(delta.reasoning);
  }
  if (!delta.text.empty()) {
    if (open_.kind != Item::kMessage) {
      bytes += BeginItem(Item::kMessage);
    }
    bytes += GrowItem(delta.text);
  }
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (!call.name.empty()) {  // the first piece of a call
      bytes += BeginItem(Item::kCall, call);
    }
    if (!call.arguments.empty()) bytes += GrowItem(call.arguments);
  }
  return bytes;
}

std::string ResponsesAnswer::Event(int, const TextDelta& delta, Choice*) {
  std::string bytes = Start();
  return bytes + Take(delta);
}

OrderedJson ResponsesAnswer::Complete(const Choice& choice, const Usage& usage) {
  const bool cut = IsCut(choice.finish);
  OrderedJson response = Response(cut ? "incomplete" : "completed");
  if (cut) response["incomplete_details"] = OrderedJson{{"reason", "max_output_tokens"}};
  if (!cut) response["completed_at"] = std::time(nullptr);
  response["usage"] = ResponseUsage(usage);
  if (asked_.store) Store(response, cut ? "incomplete" : "completed", MessagesWithAnswer());
  return response;
}

void ResponsesAnswer::Store(const OrderedJson& response, std::string_view status,
                            std::string messages) {
  store_->Put(owner_, id_, {DumpJson(response), std::move(messages), status}, NowMicros());
}

std::string ResponsesAnswer::MessagesWithAnswer() const {
  std::string text, thinking;
  OrderedJson calls = OrderedJson::array();
  for (const OrderedJson& item : output_) {
    if (item["type"] == "function_call") {
      calls.push_back(OrderedJson{
          {"id", item["call_id"]},
          {"type", "function"},
          {"function", OrderedJson{{"name", item["name"]}, {"arguments", item["arguments"]}}}});
      continue;
    }
    std::string& all = item["type"] == "reasoning" ? thinking : text;
    for (const OrderedJson& part : item["content"]) {
      all += part["text"].get_ref<const std::string&>();
    }
  }
  OrderedJson answer{{"role", "assistant"}, {"content", text}};
  if (text.empty() && !calls.empty()) answer["content"] = nullptr;
  if (!thinking.empty()) answer["reasoning_content"] = thinking;
  if (!calls.empty()) answer["tool_calls"] = std::move(calls);
  // The conversation is an array that holds at least the question.
  std::string messages = asked_.messages;
  messages.back() = ',';
  return StrCat(messages, DumpJson(answer), "]");
}

std::string ResponsesAnswer::Whole(const std::vector<Choice>& choices, const Usage& usage) {
  const Choice& choice = choices.front();
  // The same items as in a stream, of which the events are not sent.
  TextDelta all;
  all.text = choice.text;
  all.reasoning = choice.reasoning;
  all.tool_calls = choice.tool_calls;
  Take(all);
  EndItem(IsCut(choice.finish) ? "incomplete" : "completed");
  return DumpJson(Complete(choice, usage));
}

std::string ResponsesAnswer::End(const std::vector<Choice>& choices, const Usage& usage) {
  const Choice& choice = choices.front();
  const bool cut = IsCut(choice.finish);
  const std::string ended = EndItem(cut ? "incomplete" : "completed");
  return ended + Typed(cut ? "response.incomplete" : "response.completed",
                       OrderedJson{{"response", Complete(choice, usage)}});
}

std::string ResponsesAnswer::Broken(const Status& status) {
  OrderedJson response = Response("failed");
  response["error"] = OrderedJson{{"code", ErrorCodeOf(status)}, {"message", status.message()}};
  if (asked_.store) Store(response, "failed", "");
  return Typed("response.failed", OrderedJson{{"response", std::move(response)}});
}

std::optional<std::string> ResponsesAnswer::Now() const {
  OrderedJson response = Response(cancelled_ ? "cancelled" : "in_progress");
  if (open_.kind != Item::kNone) response["output"].push_back(ItemJson("in_progress", true));
  return DumpJson(response);
}

// OpenAI's events have none of its own for this: the status tells.
std::string ResponsesAnswer::Cancel() {
  std::string bytes = Start();
  bytes += EndItem("incomplete");
  cancelled_ = true;
  const OrderedJson response = Response("cancelled");
  if (asked_.store) Store(response, "cancelled", "");
  return bytes + Typed("response.incomplete", OrderedJson{{"response", response}});
}

}  // namespace sluice::server
