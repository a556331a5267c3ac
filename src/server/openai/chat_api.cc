// The body of /v1/chat/completions: messages and tools, then the shared fields.
#include <algorithm>
#include <array>
#include <limits>

#include "base/str_cat.h"
#include "server/shared/accepted_fields.h"
#include "server/shared/api_call.h"

namespace sluice::server {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system",    "user", "assistant",
                                                    "developer", "tool", "function"};
// What a template must not learn from a client: its own text, and what other fields say.
constexpr std::array<std::string_view, 6> kReservedKwargs = {
    "messages", "tools", "add_generation_prompt", "chat_template", "tokenize", "bos_token"};

// Text parts are joined by line ends: most templates take a string alone.
std::optional<std::string> JoinParts(Fields* message, const OrderedJson& parts,
                                     const std::string& path) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    Fields part(parts[i], StrCat(path, "[", i, "]."));
    const std::optional<std::string> type = part.String("type", kNameBytesMax);
    if (part.ok() && type != "text") part.WrongContent(type.value_or(""), "text");
    const std::optional<std::string> text = part.String("text", kTextBytesMax);
    if (part.ok() && !text) part.Missing("text", "the text");
    ReadAccepted(&part, FieldPlace::kPart);
    if (Status status = part.Finish(); !status.ok()) {
      message->Take(std::move(status));
      return std::nullopt;
    }
    if (i > 0) joined += '\n';
    joined += *text;
  }
  return joined;
}

void ReadContent(Fields* message, const std::string& path, bool may_be_absent, OrderedJson* out) {
  const OrderedJson* content = message->Any("content");
  if (content == nullptr) {
    if (!may_be_absent) message->Missing("content", "a string or a list of text parts");
    (*out)["content"] = nullptr;
  } else if (content->is_string()) {
    (*out)["content"] = *content;
  } else if (const OrderedJson* parts =
                 content->is_array() ? message->Array("content", kPartsMax) : nullptr) {
    if (auto text = JoinParts(message, *parts, path + "content")) (*out)["content"] = *text;
  } else {
    message->WrongType("content", *content, "a string or a list of text parts");
  }
}

// Call arguments stay as the client wrote them: a JSON text.
void CheckFunctionCall(Fields* parent, const OrderedJson& value, const std::string& path) {
  Fields function(value, path + ".");
  if (!function.String("name", kNameBytesMax)) {
    function.Missing("name", "the name of the function that was called");
  }
  const OrderedJson* arguments = function.Any("arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
    function.WrongType("arguments", *arguments, "a string of JSON");
  }
  parent->Take(function.Finish());
}

void ReadToolCalls(Fields* message, const std::string& path, OrderedJson* out) {
  const OrderedJson* calls = message->Array("tool_calls", kToolCallsMax);
  if (calls == nullptr) return;
  for (size_t i = 0; i < calls->size() && message->ok(); ++i) {
    const std::string item = StrCat(path, "tool_calls[", i, "]");
    Fields call((*calls)[i], item + ".");
    call.String("id", kNameBytesMax);
    call.Int("index", 0, 1 << 20);
    call.OnlyValue("type", "function");
    const OrderedJson* function = call.Object("function");
    if (function == nullptr) {
      call.Missing("function", "an object");
    } else {
      CheckFunctionCall(&call, *function, item + ".function");
    }
    message->Take(call.Finish());
  }
  if (!calls->empty()) (*out)["tool_calls"] = *calls;
}

// Mistral's and Qwen's spelling of continue_final_message, in the message itself.
bool ReadOpenEnd(Fields* message, const std::string& path, bool may_be_open) {
  bool open = false;
  for (const char* name : {"prefix", "partial"}) {
    if (!message->Bool(name).value_or(false)) continue;
    open = true;
    if (!may_be_open) {
      message->Fail(name, StrCat(path, name,
                                 " is true; only the last message, and one of the "
                                 "assistant, may be gone on with"));
    }
  }
  return open;
}

// *open: it is to be gone on with.
OrderedJson ReadMessage(Fields* fields, const OrderedJson& value, size_t index, bool last,
                        bool* open) {
  const std::string path = StrCat("messages[", index, "].");
  Fields message(value, path);
  OrderedJson out = OrderedJson::object();
  const std::string role = message.String("role", kNameBytesMax).value_or("");
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    message.WrongValue("role", "system, developer, user, assistant or tool");
  }
  out["role"] = role;
  const bool answers = role == "assistant" || role == "tool" || role == "function";
  ReadContent(&message, path, answers, &out);
  ReadToolCalls(&message, path, &out);
  for (const char* name : {"name", "tool_call_id"}) {
    if (auto text = message.String(name, kNameBytesMax)) out[name] = *text;
  }
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    if (auto text = message.String(name, kTextBytesMax)) out[name] = *text;
  }
  *open = ReadOpenEnd(&message, path, last && role == "assistant");
  ReadAccepted(&message, FieldPlace::kMessage);
  fields->Take(message.Finish());
  return out;
}

void ReadTools(Fields* fields, ChatFields* chat) {
  const bool called = ReadToolChoice(fields, &chat->tool_choice);
  chat->parsing.one_call = !fields->Bool("parallel_tool_calls").value_or(true);
  for (const char* name : {"functions", "function_call"}) fields->OnlyValue(name, nullptr);
  const OrderedJson* tools = fields->Array("tools", kToolsMax);
  for (size_t i = 0; tools != nullptr && i < tools->size() && fields->ok(); ++i) {
    const std::string path = StrCat("tools[", i, "]");
    Fields tool((*tools)[i], path + ".");
    if (tool.String("type", kNameBytesMax) != "function") {
      tool.WrongValue("type", "function");
    }
    if (const OrderedJson* object = tool.Object("function")) {
      Fields function(*object, path + ".function.");
      const std::optional<std::string> name = function.String("name", kNameBytesMax);
      if (function.ok() && (!name || name->empty())) {
        function.Missing("name", "the function's name");
      }
      function.String("description", kToolBytesMax);
      function.Object("parameters");
      function.Bool("strict");
      tool.Take(function.Finish());
    } else {
      tool.Missing("function", "an object");
    }
    ReadAccepted(&tool, FieldPlace::kTool);
    fields->Take(tool.Finish());
    if (fields->ok() && DumpJson((*tools)[i]).size() > kToolBytesMax) {
      fields->Fail("tools", StrCat(path, " has ", DumpJson((*tools)[i]).size(),
                                   " bytes; the limit is ", kToolBytesMax));
    }
  }
  const bool none = tools == nullptr || tools->empty();
  if (chat->tool_choice.required && none) {
    fields->Fail("tool_choice",
                 "tool_choice requires a call, and there are no tools; send tools, or a "
                 "tool_choice of auto or none");
  }
  if (none || !fields->ok()) return;
  chat->parsing.tools = called;
  if (chat->parsing.tools) chat->prompt.tools_json = DumpJson(*tools);
}

// Sets a variable of the template that a field of its own asks for; the two may not disagree.
void SetKwarg(Fields* fields, std::string_view field, const char* key, OrderedJson value,
              OrderedJson* kwargs) {
  const auto found = kwargs->find(key);
  if (found != kwargs->end() && *found != value) {
    fields->Fail(field, StrCat(field, " sets ", key, " to ", ShownValue(value),
                               " and another field to ", ShownValue(*found), "; send one of them"));
  }
  (*kwargs)[key] = std::move(value);
}

// The form of DeepSeek, GLM, Kimi and Anthropic; ReadThinkingBudget reads the budget. Nothing: the
// template decides.
std::optional<bool> ReadThinkingType(Fields* fields) {
  const OrderedJson* object = fields->Object("thinking");
  if (object == nullptr) return std::nullopt;
  Fields thinking(*object, "thinking.");
  const auto type = thinking.String("type", kNameBytesMax);
  thinking.Int("budget_tokens", 0, std::numeric_limits<int>::max());
  ReadAccepted(&thinking, FieldPlace::kThinking);
  if (thinking.ok() && type != "enabled" && type != "disabled" && type != "adaptive" &&
      type != "auto") {
    thinking.WrongValue("type", "enabled, disabled, adaptive or auto");
  }
  fields->Take(thinking.Finish());
  if (type == "enabled") return true;
  return type == "disabled" ? std::optional(false) : std::nullopt;
}

// Whether and how much the model thinks, in the spellings of OpenAI, OpenRouter, Ollama, Qwen and
// others; what that means is the template's to know. `shown`: whether the answer tells it.
void ReadThinking(Fields* fields, bool* shown, OrderedJson* kwargs) {
  *shown = fields->Bool("include_reasoning").value_or(true);
  const auto enable = [&](std::string_view field, bool value) {
    for (const char* key : {"enable_thinking", "thinking"}) {
      SetKwarg(fields, field, key, value, kwargs);
    }
  };
  const auto effort = [&](std::string_view field, const std::string& value) {
    SetKwarg(fields, field, "reasoning_effort", value, kwargs);
    if (value == "none") enable(field, false);  // templates mostly know the switch alone
  };
  if (const auto value = fields->String("reasoning_effort", kNameBytesMax)) {
    effort("reasoning_effort", *value);
  }
  if (const OrderedJson* object = fields->Object("reasoning")) {
    Fields reasoning(*object, "reasoning.");
    const auto value = reasoning.String("effort", kNameBytesMax);
    const auto enabled = reasoning.Bool("enabled");
    if (reasoning.Bool("exclude").value_or(false)) *shown = false;
    reasoning.String("summary", kNameBytesMax);
    fields->Take(reasoning.Finish());
    if (value) effort("reasoning", *value);
    if (enabled) enable("reasoning", *enabled);
  }
  const OrderedJson* think = fields->Any("think");
  if (think != nullptr && think->is_string()) {
    if (const auto value = fields->String("think", kNameBytesMax)) effort("think", *value);
  } else if (const auto value = fields->Bool("think")) {
    enable("think", *value);
  }
  if (const auto value = fields->Bool("enable_thinking")) enable("enable_thinking", *value);
  if (const auto value = ReadThinkingType(fields)) enable("thinking", *value);
  if (const auto value = fields->String("verbosity", kNameBytesMax)) {
    SetKwarg(fields, "verbosity", "verbosity", *value, kwargs);
  }
}

void ReadTemplateKwargs(Fields* fields, ChatFields* chat) {
  OrderedJson kwargs = OrderedJson::object();
  if (const OrderedJson* object = fields->Object("chat_template_kwargs")) kwargs = *object;
  for (const std::string_view name : kReservedKwargs) {
    if (kwargs.contains(std::string(name))) {
      fields->Fail("chat_template_kwargs", StrCat("chat_template_kwargs has ", name,
                                                  ", which is not the client's to set; leave it "
                                                  "out"));
    }
  }
  ReadThinking(fields, &chat->shows_reasoning, &kwargs);
  if (kwargs.empty()) return;
  chat->prompt.template_kwargs_json = DumpJson(kwargs);
  if (chat->prompt.template_kwargs_json.size() > kKwargsBytesMax) {
    fields->Fail("chat_template_kwargs",
                 StrCat("chat_template_kwargs has ", chat->prompt.template_kwargs_json.size(),
                        " bytes; the limit is ", kKwargsBytesMax));
  }
}

// Qwen's spelling, vLLM's, llama.cpp's, and that of ReadThinkingType. What the engine would refuse
// by its own name of the field is refused here by the client's.
std::optional<int> ReadThinkingBudget(Fields* fields, const Request& request) {
  std::optional<int> budget;
  std::string sent;
  if (const OrderedJson* object = fields->Object("thinking")) {
    budget = Fields(*object).Int("budget_tokens", 0, std::numeric_limits<int>::max());
    sent = "thinking.budget_tokens";
  }
  for (const char* name : {"thinking_budget", "thinking_token_budget", "thinking_budget_tokens"}) {
    const std::optional<int> value = fields->Int(name, -1, std::numeric_limits<int>::max());
    if (value && budget && *value != *budget) {
      fields->Fail(name, StrCat(name, " is ", *value, " and another spelling of it ", *budget,
                                "; send one of them"));
    }
    if (value) budget = value, sent = name;
  }
  if (budget && request.beams.on()) {
    fields->Fail(sent,
                 StrCat("a beam search cannot end what a beam thinks; send it without ", sent));
  }
  if (budget && request.sampling.no_repeat_ngram.value_or(0) != 0) {
    fields->Fail(sent, StrCat(sent,
                              " and no_repeat_ngram_size may steer against each other; send "
                              "one of them"));
  }
  return budget;
}

// What the client expects a part of the answer to be.
void ReadPrediction(Fields* fields, Request* request) {
  const OrderedJson* object = fields->Object("prediction");
  if (object == nullptr) return;
  Fields prediction(*object, "prediction.");
  const std::optional<std::string> type = prediction.String("type", kNameBytesMax);
  if (prediction.ok() && type != "content") {
    prediction.WrongValue("type", "content");
  }
  OrderedJson out = OrderedJson::object();
  ReadContent(&prediction, "prediction.", false, &out);
  fields->Take(prediction.Finish());
  if (fields->ok()) request->prediction = out["content"].get<std::string>();
}

}  // namespace

bool ReadToolChoice(Fields* fields, ToolChoice* choice) {
  const OrderedJson* value = fields->Any("tool_choice");
  if (value == nullptr || *value == "auto") return true;
  if (*value == "none") return false;
  choice->required = true;
  if (*value == "required") return true;
  const OrderedJson* object = value->is_object() ? fields->Object("tool_choice") : nullptr;
  if (object == nullptr) {
    fields->WrongValue("tool_choice", "none, auto, required, or an object that names a function");
    return true;
  }
  Fields named(*object, "tool_choice.");
  if (named.String("type", kNameBytesMax).value_or("") != "function") {
    named.WrongValue("type", "function");
  }
  std::optional<std::string> name = named.String("name", kNameBytesMax);
  if (const OrderedJson* inner = named.Object("function")) {
    Fields function(*inner, "tool_choice.function.");
    name = function.String("name", kNameBytesMax);
    named.Take(function.Finish());
  }
  if (!name || name->empty())
    named.Missing("function", "an object with the name of one of the tools");
  choice->tool = name.value_or("");
  fields->Take(named.Finish());
  return true;
}

ChatFields ReadChatFields(Fields* fields) {
  ChatFields chat;
  chat.parsing.reasoning = true;
  const OrderedJson* list = fields->Array("messages", kMessagesMax);
  if (list == nullptr || list->empty()) {
    fields->Missing("messages", "an array of messages");
    list = nullptr;
  }
  OrderedJson messages = OrderedJson::array();
  for (size_t i = 0; list != nullptr && i < list->size() && fields->ok(); ++i) {
    messages.push_back(ReadMessage(fields, (*list)[i], i, i + 1 == list->size(),
                                   &chat.prompt.continue_final_message));
  }
  chat.prompt.messages_json = DumpJson(messages);
  chat.prompt.adapt_history = true;
  ReadTools(fields, &chat);
  ReadTemplateKwargs(fields, &chat);
  const std::optional<bool> prompted = fields->Bool("add_generation_prompt");
  chat.prompt.add_generation_prompt = prompted.value_or(true);
  const std::optional<bool> open = fields->Bool("continue_final_message");
  chat.prompt.continue_final_message = open.value_or(chat.prompt.continue_final_message);
  if (chat.prompt.continue_final_message && prompted == true) {
    fields->Fail(
        "add_generation_prompt",
        "add_generation_prompt begins a new message and continue_final_message goes on with "
        "the last one; send one of them");
  }
  return chat;
}

Result<ApiCall> ParseChatCall(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  ApiCall call;
  call.chat = true;
  Request request;
  ReadShared(&fields, model, std::nullopt, &call, &request);
  if (request.max_tokens == 0) fields.Fail("max_tokens", "max_tokens is 0; it must be at least 1");
  const bool logprobs = fields.Bool("logprobs").value_or(false);
  const std::optional<int> top = fields.Int("top_logprobs", 0, limits::kTopLogprobsMax);
  if (top && *top > 0 && !logprobs) {
    fields.Fail("top_logprobs",
                StrCat("top_logprobs is ", *top, ", which needs logprobs to be true; send both"));
  }
  if (logprobs) call.logprobs = top.value_or(0);
  request.logprobs = call.logprobs;
  ChatFields chat = ReadChatFields(&fields);
  request.prompt = std::move(chat.prompt);
  request.parsing = chat.parsing;
  request.tool_choice = std::move(chat.tool_choice);
  request.thinking_budget = ReadThinkingBudget(&fields, request);
  call.shows_reasoning = chat.shows_reasoning;
  fields.OnlyValue("modalities", OrderedJson::array({"text"}));
  for (const char* name : {"audio", "web_search_options"}) fields.OnlyValue(name, nullptr);
  for (const char* name : {"echo", "add_special_tokens"}) fields.OnlyValue(name, false);
  ReadPrediction(&fields, &request);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  call.requests.push_back(std::move(request));
  return call;
}

}  // namespace sluice::server
