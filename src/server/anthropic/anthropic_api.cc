// The body of Anthropic's /v1/messages: its blocks become a conversation in OpenAI's form, which
// the model's template takes.
#include <limits>

#include "base/str_cat.h"
#include "server/anthropic/anthropic_tools.h"
#include "server/shared/accepted_fields.h"
#include "server/shared/api_call.h"
#include "server/shared/constraint_fields.h"

namespace sluice::server {
namespace {

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
    if (block.ok() && type != "text") block.WrongContent(type.value_or(""), "text");
    const auto text = block.String("text", kTextBytesMax);
    if (!text) block.Missing("text", "the text");
    ReadAccepted(&block, FieldPlace::kAnthropicBlock);
    AppendText(&joined, text.value_or(""));
    fields->Take(block.Finish());
  }
  return joined;
}

void ReadToolUse(Fields* block, Blocks* blocks) {
  const std::string id = block->String("id", kNameBytesMax).value_or("");
  const auto name = block->String("name", kNameBytesMax);
  if (!name || name->empty()) block->Missing("name", "the name of the tool that was called");
  const OrderedJson* input = block->Object("input");
  if (input == nullptr) block->Missing("input", "an object, {} where the call takes nothing");
  if (!block->ok()) return;
  if (blocks->calls.size() == kToolCallsMax) {
    block->Fail("type", StrCat("a message has ", kToolCallsMax + 1,
                               " tool_use blocks or more; the limit is ", kToolCallsMax));
    return;
  }
  blocks->calls.push_back(
      OrderedJson{{"id", id},
                  {"type", "function"},
                  {"function", OrderedJson{{"name", *name}, {"arguments", DumpJson(*input)}}}});
}

void ReadToolResult(Fields* block, const std::string& path, Blocks* blocks) {
  const auto id = block->String("tool_use_id", kNameBytesMax);
  if (!id) block->Missing("tool_use_id", "the id of the tool_use block that it answers");
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
    if (!text) block.Missing("text", "the text");
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
    block.WrongContent(type, assistant ? "text, thinking or tool_use in an assistant's message"
                                       : "text or tool_result in a user's message");
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
    message.WrongValue("role", "user, assistant or system");
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
    if (!text) message.Missing("content", "a text or a list of blocks");
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

// Whether and how much the model thinks, which is the template's to know, whether the client is
// told, and what the answer is held to.
void ReadThinkingAndFormat(Fields* fields, ChatPrompt* chat, Request* request, bool* shown) {
  OrderedJson kwargs = OrderedJson::object();
  if (const OrderedJson* object = fields->Object("thinking")) {
    Fields thinking(*object, "thinking.");
    const std::string type = thinking.String("type", kNameBytesMax).value_or("");
    if (type == "enabled" || type == "disabled") {
      kwargs["enable_thinking"] = kwargs["thinking"] = type == "enabled";
    } else if (type != "adaptive" && type != "between_tools") {  // which leave it to the template
      thinking.WrongValue("type", "enabled, disabled, adaptive or between_tools");
    }
    const auto budget = thinking.Int("budget_tokens", 0, kBudgetMax);
    if (type != "disabled") request->thinking_budget = budget;
    *shown = thinking.String("display", kNameBytesMax) != "omitted";
    thinking.Object("block_binding");  // nobody signs blocks here
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

// Leaves out what the assistant thought before its last `turns` messages that say so.
void ClearThinking(int turns, OrderedJson* messages) {
  for (auto message = messages->rbegin(); message != messages->rend(); ++message) {
    if (message->contains("reasoning_content") && --turns < 0) message->erase("reasoning_content");
  }
}

void ReadEdit(Fields* fields, const OrderedJson& value, const std::string& path,
              OrderedJson* messages) {
  Fields edit(value, path + ".");
  const std::string type = edit.String("type", kNameBytesMax).value_or("");
  const OrderedJson* const keep = edit.Any("keep");
  if (type.starts_with("clear_thinking_")) {
    std::optional<int> turns = 1;
    if (keep != nullptr && keep->is_object()) {
      Fields kept(*keep, path + ".keep.");
      const std::string kind = kept.String("type", kNameBytesMax).value_or("");
      const bool all = kind == "all";
      if (!all && kind != "thinking_turns") kept.WrongValue("type", "all or thinking_turns");
      turns = kept.Int("value", 0, kMessagesMax);
      if (all && turns) kept.WrongValue("value", "left out where all is kept");
      if (!all && !turns) kept.Missing("value", "the number of turns to keep");
      edit.Take(kept.Finish());
    } else if (keep != nullptr) {
      if (*keep != "all") edit.WrongValue("keep", "\"all\", or an object of type thinking_turns");
      turns.reset();
    }
    if (edit.ok() && turns) ClearThinking(*turns, messages);
    fields->Take(edit.Finish());
    return;
  }
  // The others shorten a conversation that nears the end of the context; here one that is too long
  // is refused.
  if (!type.starts_with("clear_tool_uses_") && !type.starts_with("compact_")) {
    edit.WrongValue("type", "clear_thinking, clear_tool_uses or compact, with its date");
  }
  if (!edit.ok()) fields->Take(edit.Finish());
}

// What leaves parts of the conversation out.
void ReadContextManagement(Fields* fields, OrderedJson* messages) {
  const OrderedJson* object = fields->Object("context_management");
  if (object == nullptr) return;
  Fields management(*object, "context_management.");
  const OrderedJson* edits = management.Array("edits", kContextEditsMax);
  for (size_t i = 0; edits != nullptr && i < edits->size() && management.ok(); ++i) {
    ReadEdit(&management, (*edits)[i], StrCat("context_management.edits[", i, "]"), messages);
  }
  fields->Take(management.Finish());
}

}  // namespace

void ReadAnthropicFields(Fields* fields, Request* request, bool* shows_thinking) {
  OrderedJson messages = OrderedJson::array();
  if (const auto system = ReadText(fields, "system", "")) {
    messages.push_back(OrderedJson{{"role", "system"}, {"content", *system}});
  }
  const OrderedJson* list = fields->Array("messages", kMessagesMax);
  if (list == nullptr || list->empty()) {
    fields->Missing("messages", "an array of messages");
    list = nullptr;
  }
  for (size_t i = 0; list != nullptr && i < list->size() && fields->ok(); ++i) {
    ReadMessage(fields, (*list)[i], i, &messages);
  }
  ChatPrompt chat;
  if (fields->ok() && messages.back()["role"] == "assistant") {
    if (messages.back().contains("tool_calls")) {
      fields->Fail(
          "messages",
          "the last message calls tools and no message says what they gave; end with their "
          "tool_result blocks");
    }
    chat.continue_final_message = true;
  }
  ReadContextManagement(fields, &messages);
  chat.messages_json = DumpJson(messages);
  chat.adapt_history = true;
  request->parsing.reasoning = true;
  ReadAnthropicTools(fields, &chat, request);
  ReadThinkingAndFormat(fields, &chat, request, shows_thinking);
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
  ReadResume(&fields, &call);
  Request request;
  ReadAnthropicFields(&fields, &request, &call.shows_reasoning);
  request.max_tokens = fields.Int("max_tokens", 1, std::numeric_limits<int>::max());
  ReadStops(&fields, "stop_sequences", &request);
  ReadSampling(&fields, &request.sampling);
  ReadAccepted(&fields, FieldPlace::kAnthropicRequest);
  SLUICE_RETURN_IF_ERROR(fields.Finish());
  call.requests.push_back(std::move(request));
  return call;
}

}  // namespace sluice::server
