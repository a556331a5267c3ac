// The body of Anthropic's /v1/messages: its blocks become a conversation in OpenAI's form, which
// the model's template takes.
#include <limits>

#include "base/str_cat.h"
#include "server/accepted_fields.h"
#include "server/api_call.h"
#include "server/constraint_fields.h"

namespace sluice::server {
namespace {

constexpr size_t kTextBytesMax = 1u << 30;  // the body's limit is the real one
constexpr size_t kNameBytesMax = 256;
constexpr size_t kSignatureBytesMax = 64u << 10;
constexpr int kBudgetMax = 1 << 30;

// What the blocks of one message say.
struct Blocks {
  std::string text, thinking;
  OrderedJson calls = OrderedJson::array();    // tool_use, as OpenAI's tool_calls
  OrderedJson results = OrderedJson::array();  // tool_result, as OpenAI's tool messages
};

void AppendText(std::string* all, std::string_view text) {
  if (!all->empty()) *all += '\n';
  *all += text;
}

// A string, or a list of text blocks, which are joined by line ends: most templates take a string
// alone.
std::optional<std::string> ReadText(Fields* fields, std::string_view name,
                                    const std::string& path) {
  const OrderedJson* value = fields->Any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  const OrderedJson* list = value->is_array() ? fields->Array(name, kPartsMax) : nullptr;
  if (list == nullptr) {
    fields->WrongType(name, *value, "a string or a list of text blocks");
    return std::nullopt;
  }
  std::string joined;
  for (size_t i = 0; i < list->size() && fields->ok(); ++i) {
    Fields block((*list)[i], StrCat(path, name, "[", i, "]."));
    const auto type = block.String("type", kNameBytesMax);
    if (block.ok() && type != "text") {
      block.Fail("type", StrCat("content of type \"", type.value_or("").substr(0, 64),
                                "\" is not supported by this version; send text"));
    }
    const auto text = block.String("text", kTextBytesMax);
    if (!text) block.Fail("text", "a text block has no text");
    ReadAccepted(&block, FieldPlace::kAnthropicBlock);
    AppendText(&joined, text.value_or(""));
    fields->Take(block.Finish());
  }
  return joined;
}

void ReadToolUse(Fields* block, Blocks* blocks) {
  const std::string id = block->String("id", kNameBytesMax).value_or("");
  const auto name = block->String("name", kNameBytesMax);
  if (!name || name->empty()) block->Fail("name", "a tool_use block has no name");
  const OrderedJson* input = block->Object("input");
  if (input == nullptr) block->Fail("input", "a tool_use block has no input; send an object");
  if (!block->ok()) return;
  if (blocks->calls.size() == kToolCallsMax) {
    block->Fail("type", StrCat("a message has more than ", kToolCallsMax, " tool_use blocks"));
    return;
  }
  blocks->calls.push_back(
      OrderedJson{{"id", id},
                  {"type", "function"},
                  {"function", OrderedJson{{"name", *name}, {"arguments", DumpJson(*input)}}}});
}

void ReadToolResult(Fields* block, const std::string& path, Blocks* blocks) {
  const auto id = block->String("tool_use_id", kNameBytesMax);
  if (!id) block->Fail("tool_use_id", "a tool_result block has no tool_use_id");
  const std::string text = ReadText(block, "content", path).value_or("");
  block->Bool("is_error");  // what went wrong stands in the text
  blocks->results.push_back(
      OrderedJson{{"role", "tool"}, {"tool_call_id", id.value_or("")}, {"content", text}});
}

void ReadBlock(Fields* message, const OrderedJson& value, const std::string& path, bool assistant,
               Blocks* blocks) {
  Fields block(value, path);
  const std::string type = block.String("type", kNameBytesMax).value_or("");
  if (type == "text") {
    const auto text = block.String("text", kTextBytesMax);
    if (!text) block.Fail("text", "a text block has no text");
    AppendText(&blocks->text, text.value_or(""));
  } else if (type == "tool_use" && assistant) {
    ReadToolUse(&block, blocks);
  } else if (type == "tool_result" && !assistant) {
    ReadToolResult(&block, path, blocks);
  } else if (type == "thinking" && assistant) {
    const auto thinking = block.String("thinking", kTextBytesMax);
    AppendText(&blocks->thinking, thinking.value_or(""));
    block.String("signature", kSignatureBytesMax);
  } else if (type == "redacted_thinking" && assistant) {
    block.String("data", kTextBytesMax);  // nobody can read it
  } else {
    block.Fail("type", StrCat("a block of type \"", type.substr(0, 64), "\" is not supported in ",
                              assistant ? "an assistant's message; send text, thinking or tool_use"
                                        : "a user's message; send text or tool_result"));
  }
  ReadAccepted(&block, FieldPlace::kAnthropicBlock);
  message->Take(block.Finish());
}

// One message of theirs is several of OpenAI's where results of tools stand in it.
void ReadMessage(Fields* fields, const OrderedJson& value, size_t index, OrderedJson* messages) {
  const std::string path = StrCat("messages[", index, "].");
  Fields message(value, path);
  const std::string role = message.String("role", kNameBytesMax).value_or("");
  if (role != "user" && role != "assistant" && role != "system") {
    message.Fail("role", StrCat(path, "role is \"", role.substr(0, 64),
                                "\"; it must be user, assistant or system"));
  }
  Blocks blocks;
  const OrderedJson* content = message.Any("content");
  const bool list = content != nullptr && content->is_array() && role != "system";
  if (list && message.Array("content", kPartsMax) != nullptr) {
    for (size_t i = 0; i < content->size() && message.ok(); ++i) {
      ReadBlock(&message, (*content)[i], StrCat(path, "content[", i, "]."), role == "assistant",
                &blocks);
    }
  } else if (!list) {
    const auto text = ReadText(&message, "content", path);
    if (!text) message.Fail("content", StrCat(path, "content is missing; send text or blocks"));
    blocks.text = text.value_or("");
  }
  fields->Take(message.Finish());
  for (OrderedJson& result : blocks.results) messages->push_back(std::move(result));
  if (!blocks.results.empty() && blocks.text.empty()) return;
  OrderedJson out{{"role", role}, {"content", blocks.text}};
  if (!blocks.calls.empty()) {
    if (blocks.text.empty()) out["content"] = nullptr;
    out["tool_calls"] = std::move(blocks.calls);
  }
  if (!blocks.thinking.empty()) out["reasoning_content"] = blocks.thinking;
  messages->push_back(std::move(out));
}

OrderedJson ReadTool(Fields* fields, const OrderedJson& value, size_t index) {
  Fields tool(value, StrCat("tools[", index, "]."));
  const std::string type = tool.String("type", kNameBytesMax).value_or("custom");
  if (type != "custom") {
    tool.Fail("type", StrCat("the tool ", type.substr(0, 64),
                             " is one that Anthropic's servers run; send tools of type custom"));
  }
  const auto name = tool.String("name", kNameBytesMax);
  if (!name || name->empty()) tool.Fail("name", StrCat("tools[", index, "].name is missing"));
  OrderedJson function{{"name", name.value_or("")}};
  if (auto text = tool.String("description", kToolBytesMax)) function["description"] = *text;
  const OrderedJson* schema = tool.Object("input_schema");
  if (schema == nullptr) {
    tool.Fail("input_schema", StrCat("tools[", index, "].input_schema is missing"));
  } else {
    function["parameters"] = *schema;
  }
  if (const auto strict = tool.Bool("strict")) function["strict"] = *strict;
  ReadAccepted(&tool, FieldPlace::kAnthropicTool);
  fields->Take(tool.Finish());
  if (fields->ok() && DumpJson(function).size() > kToolBytesMax) {
    fields->Fail("tools", StrCat("tools[", index, "] has more than ", kToolBytesMax, " bytes"));
  }
  return OrderedJson{{"type", "function"}, {"function", std::move(function)}};
}

void ReadTools(Fields* fields, ChatPrompt* chat, Request* request) {
  OutputParsing* const parsing = &request->parsing;
  bool none = false;
  if (const OrderedJson* object = fields->Object("tool_choice")) {
    Fields choice(*object, "tool_choice.");
    const std::string type = choice.String("type", kNameBytesMax).value_or("");
    none = type == "none";
    request->tool_choice.required = type == "any" || type == "tool";
    if (type == "tool") {
      const auto name = choice.String("name", kNameBytesMax);
      if (!name || name->empty()) choice.Fail("name", "tool_choice.name is missing");
      request->tool_choice.tool = name.value_or("");
    } else if (!none && type != "auto" && type != "any") {
      choice.Fail("type", "tool_choice.type must be auto, any, tool or none");
    }
    parsing->one_call = choice.Bool("disable_parallel_tool_use").value_or(false);
    fields->Take(choice.Finish());
  }
  const OrderedJson* tools = fields->Array("tools", kToolsMax);
  if (request->tool_choice.required && (tools == nullptr || tools->empty())) {
    fields->Fail("tool_choice", "tool_choice requires a call, and there are no tools");
  }
  if (tools == nullptr) return;
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < tools->size() && fields->ok(); ++i) {
    out.push_back(ReadTool(fields, (*tools)[i], i));
  }
  parsing->tools = !out.empty() && !none;
  if (parsing->tools) chat->tools_json = DumpJson(out);
}

// Whether and how much the model thinks, which is the template's to know, and what the answer is
// held to.
void ReadThinkingAndFormat(Fields* fields, ChatPrompt* chat, Request* request) {
  OrderedJson kwargs = OrderedJson::object();
  if (const OrderedJson* object = fields->Object("thinking")) {
    Fields thinking(*object, "thinking.");
    const std::string type = thinking.String("type", kNameBytesMax).value_or("");
    if (type == "enabled" || type == "disabled") {
      kwargs["enable_thinking"] = kwargs["thinking"] = type == "enabled";
    } else if (type != "adaptive") {  // which leaves it to the template
      thinking.Fail("type", "thinking.type must be enabled, disabled or adaptive");
    }
    request->thinking_budget = thinking.Int("budget_tokens", 0, kBudgetMax);
    thinking.String("display", kNameBytesMax);
    fields->Take(thinking.Finish());
  }
  if (const OrderedJson* object = fields->Object("output_config")) {
    Fields config(*object, "output_config.");
    if (auto effort = config.String("effort", kNameBytesMax)) kwargs["reasoning_effort"] = *effort;
    ReadFlatFormat(&config, "output_config.", request);
    fields->Take(config.Finish());
  }
  if (!kwargs.empty()) chat->template_kwargs_json = DumpJson(kwargs);
}

}  // namespace

void ReadAnthropicFields(Fields* fields, Request* request) {
  OrderedJson messages = OrderedJson::array();
  if (const auto system = ReadText(fields, "system", "")) {
    messages.push_back(OrderedJson{{"role", "system"}, {"content", *system}});
  }
  const OrderedJson* list = fields->Array("messages", kMessagesMax);
  if (list == nullptr || list->empty()) {
    fields->Fail("messages", "messages is missing or empty; it must be an array of messages");
    list = nullptr;
  }
  for (size_t i = 0; list != nullptr && i < list->size() && fields->ok(); ++i) {
    ReadMessage(fields, (*list)[i], i, &messages);
  }
  if (fields->ok() && messages.back()["role"] == "assistant") {
    fields->Fail("messages",
                 "the last message is the assistant's; to continue it is not supported by this "
                 "version; end with a user's message");
  }
  ChatPrompt chat;
  chat.messages_json = DumpJson(messages);
  chat.adapt_history = true;
  request->parsing.reasoning = true;
  ReadTools(fields, &chat, request);
  ReadThinkingAndFormat(fields, &chat, request);
  request->prompt = std::move(chat);
}

Result<ApiCall> ParseMessagesCall(std::string_view body, const ModelFacts& model) {
  SLUICE_ASSIGN_OR_RETURN(const OrderedJson object, ParseBody(body));
  Fields fields(object);
  ReadModel(&fields, model);
  ApiCall call;
  call.chat = true;
  call.model = model.name;
  call.stream = fields.Bool("stream").value_or(false);
  Request request;
  ReadAnthropicFields(&fields, &request);
  request.max_tokens = fields.Int("max_tokens", 1, std::numeric_limits<int>::max());
  ReadStops(&fields, "stop_sequences", &request);
  ReadSampling(&fields, &request.sampling);
  ReadAccepted(&fields, FieldPlace::kAnthropicRequest);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  call.requests.push_back(std::move(request));
  return call;
}

}  // namespace sluice::server
