#include "server/openai/responses_api.h"

#include <limits>

#include "base/str_cat.h"
#include "base/visible.h"
#include "server/shared/accepted_fields.h"
#include "server/shared/answer.h"
#include "server/shared/constraint_fields.h"

namespace sluice::server {
namespace {

constexpr size_t kItemsMax = kMessagesMax;
constexpr size_t kIncludesMax = 16;
// Of a conversation that goes on from stored ones.
constexpr size_t kHistoryBytesMax = 16u << 20;

// The items of a conversation as chat messages. What an assistant thinks, says and calls is several
// items here and one message there.
class Conversation {
 public:
  explicit Conversation(OrderedJson messages) : messages_(std::move(messages)) {}

  void Add(OrderedJson message) {
    Flush();
    messages_.push_back(std::move(message));
  }
  void AddText(const std::string& text) {
    if (!turn_["content"].is_null() || turn_.contains("tool_calls")) Flush();
    turn_["content"] = text;
    open_ = true;
  }
  void AddThinking(const std::string& text) {
    if (!turn_["content"].is_null() || turn_.contains("tool_calls")) Flush();
    turn_["reasoning_content"] = text;
    open_ = true;
  }
  // False: the turn has too many.
  bool AddCall(OrderedJson call) {
    OrderedJson& calls = turn_["tool_calls"];
    calls.push_back(std::move(call));
    open_ = true;
    return calls.size() <= kToolCallsMax;
  }
  OrderedJson Take() {
    Flush();
    return std::move(messages_);
  }

 private:
  static OrderedJson NewTurn() { return OrderedJson{{"role", "assistant"}, {"content", nullptr}}; }
  void Flush() {
    if (std::exchange(open_, false)) messages_.push_back(std::exchange(turn_, NewTurn()));
  }

  OrderedJson messages_;
  OrderedJson turn_ = NewTurn();  // of the assistant, not in the messages yet
  bool open_ = false;             // there is something in it
};

}  // namespace

std::optional<std::string> ReadResponsesText(Fields* item, std::string_view name,
                                             const std::string& path) {
  const OrderedJson* value = item->Any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  const OrderedJson* list = value->is_array() ? item->Array(name, kPartsMax) : nullptr;
  if (list == nullptr) {
    item->WrongType(name, *value, "a string or a list of text parts");
    return std::nullopt;
  }
  std::string joined;
  for (size_t i = 0; i < list->size() && item->ok(); ++i) {
    Fields part((*list)[i], StrCat(path, name, "[", i, "]."));
    const std::string type = part.String("type", kNameBytesMax).value_or("");
    const bool refusal = type == "refusal", json = type == "input_json";
    if (!refusal && !json && type != "input_text" && type != "output_text" && type != "text" &&
        type != "reasoning_text" && type != "summary_text") {
      part.WrongContent(type, "input_text");
    }
    const OrderedJson* data = json ? part.Any("data") : nullptr;
    const auto text = data != nullptr ? DumpJson(*data)
                                      : part.String(refusal ? "refusal" : "text", kTextBytesMax);
    if (!text) part.Missing("text", "the text");
    ReadAccepted(&part, FieldPlace::kResponsesPart);
    if (i > 0) joined += '\n';
    joined += text.value_or("");
    item->Take(part.Finish());
  }
  return joined;
}

namespace {

void ReadMessageItem(Fields* item, const std::string& path, Conversation* conversation) {
  const std::string role = item->String("role", kNameBytesMax).value_or("");
  if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
    item->WrongValue("role", "user, assistant, system or developer");
  }
  const auto text = ReadResponsesText(item, "content", path);
  if (!text) item->Missing("content", "a text or a list of text parts");
  if (!item->ok()) return;
  if (role == "assistant") {
    conversation->AddText(*text);
  } else {
    conversation->Add(OrderedJson{{"role", role}, {"content", *text}});
  }
}

void ReadCallItem(Fields* item, Conversation* conversation) {
  const auto id = item->String("call_id", kNameBytesMax);
  const auto name = item->String("name", kNameBytesMax);
  const auto arguments = item->String("arguments", kTextBytesMax);
  if (!id) item->Missing("call_id", "the id of the call");
  if (!name || name->empty()) item->Missing("name", "the name of the function that was called");
  if (!arguments) item->Missing("arguments", "a string of JSON");
  if (!item->ok()) return;
  if (!conversation->AddCall(
          OrderedJson{{"id", *id},
                      {"type", "function"},
                      {"function", OrderedJson{{"name", *name}, {"arguments", *arguments}}}})) {
    item->Fail("type", StrCat("a turn has ", kToolCallsMax + 1,
                              " function calls or more; the limit is ", kToolCallsMax));
  }
}

void ReadItem(Fields* fields, const OrderedJson& value, size_t index, Conversation* conversation) {
  const std::string path = StrCat("input[", index, "].");
  Fields item(value, path);
  const std::string type = item.String("type", kNameBytesMax).value_or("message");
  if (type == "message") {
    ReadMessageItem(&item, path, conversation);
  } else if (type == "function_call") {
    ReadCallItem(&item, conversation);
  } else if (type == "function_call_output") {
    const auto id = item.String("call_id", kNameBytesMax);
    const auto output = ReadResponsesText(&item, "output", path);
    if (!id) item.Missing("call_id", "the id of the call that it answers");
    if (!output) item.Missing("output", "a text or a list of text parts");
    if (item.ok()) {
      conversation->Add(OrderedJson{{"role", "tool"}, {"tool_call_id", *id}, {"content", *output}});
    }
  } else if (type == "reasoning") {
    const auto summary = ReadResponsesText(&item, "summary", path);
    const auto content = ReadResponsesText(&item, "content", path);
    item.String("encrypted_content", kTextBytesMax);  // nobody here can read it
    const std::string text = content ? *content : summary.value_or("");
    if (item.ok() && !text.empty()) conversation->AddThinking(text);
  } else {
    item.WrongContent(type, "message, function_call, function_call_output or reasoning");
  }
  ReadAccepted(&item, FieldPlace::kResponsesItem);
  fields->Take(item.Finish());
}

// The conversation that the input goes on from.
OrderedJson ReadPrevious(Fields* fields, const ResponseFinder& find) {
  const auto id = fields->String("previous_response_id", kNameBytesMax);
  if (!id) return OrderedJson::array();
  const auto stored = find(*id);
  if (stored == nullptr) {
    fields->Take(Status(StatusCode::kNotFound,
                        StrCat("there is no response ", Quote(*id),
                               " of this key that has ended; it may have been too old"),
                        "previous_response_id"));
    return OrderedJson::array();
  }
  if (stored->messages.empty()) {
    fields->Fail("previous_response_id",
                 StrCat("the response ", Quote(*id), " is ", stored->status,
                        "; only one that is completed or incomplete is gone on from"));
    return OrderedJson::array();
  }
  auto messages = ParseOrderedJson(stored->messages, "a stored response");
  if (!messages.ok()) fields->Take(messages.status());
  return messages.ok() ? std::move(messages).value() : OrderedJson::array();
}

}  // namespace

OrderedJson ReadResponsesInput(Fields* fields, OrderedJson before) {
  Conversation conversation(std::move(before));
  const OrderedJson* input = fields->Any("input");
  if (input != nullptr && input->is_string()) {
    conversation.Add(OrderedJson{{"role", "user"}, {"content", *input}});
  } else if (const OrderedJson* items = fields->Array("input", kItemsMax);
             items != nullptr && !items->empty()) {
    for (size_t i = 0; i < items->size() && fields->ok(); ++i) {
      ReadItem(fields, (*items)[i], i, &conversation);
    }
  } else {
    fields->Missing("input", "a text or a list of items");
  }
  OrderedJson messages = conversation.Take();
  if (messages.size() > kMessagesMax) {
    fields->Fail("input", StrCat("the conversation has ", messages.size(),
                                 " messages; the limit is ", kMessagesMax));
  }
  return messages;
}

namespace {

OrderedJson ReadTools(Fields* fields, ResponsesCall* call) {
  OrderedJson out = OrderedJson::array();
  call->shown["tools"] = OrderedJson::array();
  const OrderedJson* tools = fields->Array("tools", kToolsMax);
  if (tools == nullptr) return out;
  for (size_t i = 0; i < tools->size() && fields->ok(); ++i) {
    const std::string path = StrCat("tools[", i, "]");
    Fields tool((*tools)[i], path + ".");
    const std::string type = tool.String("type", kNameBytesMax).value_or("");
    if (type != "function") {
      tool.WrongValue("type", "function, as this server has no tools of its own");
    }
    const auto name = tool.String("name", kNameBytesMax);
    if (!name || name->empty()) tool.Missing("name", "the function's name");
    OrderedJson function{{"name", name.value_or("")}};
    if (auto text = tool.String("description", kToolBytesMax)) function["description"] = *text;
    if (const OrderedJson* schema = tool.Object("parameters")) function["parameters"] = *schema;
    if (const auto strict = tool.Bool("strict")) function["strict"] = *strict;
    ReadAccepted(&tool, FieldPlace::kResponsesTool);
    fields->Take(tool.Finish());
    if (fields->ok() && DumpJson(function).size() > kToolBytesMax) {
      fields->Fail("tools", StrCat(path, " has ", DumpJson(function).size(),
                                   " bytes; the limit is ", kToolBytesMax));
    }
    out.push_back(OrderedJson{{"type", "function"}, {"function", std::move(function)}});
  }
  if (fields->ok()) call->shown["tools"] = *tools;
  return out;
}

// How much the model thinks and how much it says, which are variables of the template, and what the
// answer is held to.
OrderedJson ReadStyle(Fields* fields, ResponsesCall* call, Request* request) {
  OrderedJson kwargs = OrderedJson::object();
  call->shown["reasoning"] = OrderedJson{{"effort", nullptr}, {"summary", nullptr}};
  if (const OrderedJson* object = fields->Object("reasoning")) {
    Fields reasoning(*object, "reasoning.");
    if (const auto effort = reasoning.String("effort", kNameBytesMax)) {
      kwargs["reasoning_effort"] = *effort;
      if (*effort == "none") kwargs["enable_thinking"] = kwargs["thinking"] = false;
      call->shown["reasoning"]["effort"] = *effort;
    }
    ReadAccepted(&reasoning, FieldPlace::kResponsesReasoning);
    fields->Take(reasoning.Finish());
  }
  call->shown["text"] = OrderedJson{{"format", OrderedJson{{"type", "text"}}}};
  if (const OrderedJson* object = fields->Object("text")) {
    Fields text(*object, "text.");
    ReadFlatFormat(&text, "text.", request);
    if (request->grammar.kind != Grammar::Kind::kNone) call->call.grammar_field = "text.format";
    if (const OrderedJson* format = text.Object("format")) call->shown["text"]["format"] = *format;
    if (const auto verbosity = text.String("verbosity", kNameBytesMax)) {
      kwargs["verbosity"] = *verbosity;
      call->shown["text"]["verbosity"] = *verbosity;
    }
    fields->Take(text.Finish());
  }
  return kwargs;
}

void ReadStream(Fields* fields, ApiCall* call) {
  call->stream = fields->Bool("stream").value_or(false);
  ReadResume(fields, call);
  call->background = fields->Bool("background").value_or(false);
  if (const OrderedJson* object = fields->Object("stream_options")) {
    Fields options(*object, "stream_options.");
    options.Bool("include_obfuscation");
    fields->Take(options.Finish());
  }
}

// What is asked for beside the text; reasoning stands in the answer as it is, and need not be
// encrypted to come back.
void ReadInclude(Fields* fields) {
  const OrderedJson* list = fields->Array("include", kIncludesMax);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if ((*list)[i] == "reasoning.encrypted_content") continue;
    fields->Fail("include", StrCat("include[", i, "] is ", ShownValue((*list)[i]),
                                   ", which is not supported by this version; only "
                                   "\"reasoning.encrypted_content\" may stand there"));
  }
}

void ShowSampling(const Request& request, OrderedJson* shown) {
  ForEachSamplingField(
      [shown](const SamplingField& field, const auto& value) {
        if (!field.in_response) return;
        (*shown)[std::string(field.name)] = value ? OrderedJson(*value) : OrderedJson(nullptr);
      },
      request.sampling);
  (*shown)["max_output_tokens"] =
      request.max_tokens ? OrderedJson(*request.max_tokens) : OrderedJson(nullptr);
}

// The prompt: the instructions, which are not a part of what is gone on from, and the conversation.
ChatPrompt ReadPrompt(Fields* fields, const ResponseFinder& find, ResponsesCall* call,
                      Request* request) {
  OrderedJson messages = ReadResponsesInput(fields, ReadPrevious(fields, find));
  call->messages = DumpJson(messages);
  if (call->messages.size() > kHistoryBytesMax) {
    fields->Fail("input", StrCat("the conversation has ", call->messages.size(),
                                 " bytes; the limit is ", kHistoryBytesMax));
  }
  ChatPrompt chat;
  chat.adapt_history = true;
  const auto instructions = fields->String("instructions", kTextBytesMax);
  call->shown["instructions"] = instructions ? OrderedJson(*instructions) : OrderedJson(nullptr);
  if (instructions && !instructions->empty()) {
    messages.insert(messages.begin(), OrderedJson{{"role", "system"}, {"content", *instructions}});
    chat.messages_json = DumpJson(messages);
  } else {
    chat.messages_json = call->messages;
  }
  const bool called = ReadToolChoice(fields, &request->tool_choice);
  const OrderedJson* choice = fields->Any("tool_choice");
  call->shown["tool_choice"] = choice == nullptr ? OrderedJson("auto") : *choice;
  const OrderedJson tools = ReadTools(fields, call);
  if (request->tool_choice.required && tools.empty()) {
    fields->Fail("tool_choice",
                 "tool_choice requires a call, and there are no tools; send tools, or a "
                 "tool_choice of auto or none");
  }
  request->parsing = {.reasoning = true, .tools = !tools.empty() && called};
  if (request->parsing.tools) chat.tools_json = DumpJson(tools);
  const OrderedJson kwargs = ReadStyle(fields, call, request);
  if (!kwargs.empty()) chat.template_kwargs_json = DumpJson(kwargs);
  return chat;
}

}  // namespace

OrderedJson ResponseUsage(const Usage& usage) {
  OrderedJson json;
  json["input_tokens"] = usage.prompt_tokens;
  json["input_tokens_details"] =
      OrderedJson{{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}};
  json["output_tokens"] = usage.completion_tokens;
  json["output_tokens_details"] = OrderedJson{{"reasoning_tokens", 0}};
  AddDraftNotes(usage, &json["output_tokens_details"]);
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  return json;
}

Result<ResponsesCall> ParseResponsesCall(std::string_view body, const ModelFacts& model,
                                         const ResponseFinder& find) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  ResponsesCall out;
  ApiCall& call = out.call;
  call.chat = true;
  call.model = model.name;
  Request request;
  request.prompt = ReadPrompt(&fields, find, &out, &request);
  request.max_tokens = fields.Int("max_output_tokens", 1, std::numeric_limits<int>::max());
  ReadSampling(&fields, &request.sampling);
  ShowSampling(request, &out.shown);
  ReadStream(&fields, &call);
  ReadInclude(&fields);
  out.store = fields.Bool("store").value_or(true);
  out.shown["store"] = out.store;
  out.background = call.background;
  if (out.background && !out.store) {
    fields.Fail("background",
                "background is true and store false; nobody could ask for the answer: leave store "
                "out");
  }
  const bool parallel = fields.Bool("parallel_tool_calls").value_or(true);
  out.shown["parallel_tool_calls"] = parallel;
  request.parsing.one_call = !parallel;
  ReadAccepted(&fields, FieldPlace::kResponsesRequest);
  for (const char* name : {"previous_response_id", "metadata", "user"}) {
    const OrderedJson* value = fields.Any(name);
    out.shown[name] = value == nullptr ? OrderedJson(nullptr) : *value;
  }
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  call.requests.push_back(std::move(request));
  return out;
}

}  // namespace sluice::server
