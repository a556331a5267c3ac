#include "server/anthropic/anthropic_tools.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"
#include "server/shared/accepted_fields.h"
#include "server/shared/api_call.h"

namespace sluice::server {
namespace {

// A tool that the client runs, and of which it sends the name and no schema, since Anthropic's
// models know it by its type. Other models are told here what it takes.
struct KnownTool {
  std::string_view types[2];  // the dates of which agree in what is told here
  const char* description;
  const char* schema;
};

constexpr KnownTool kKnownTools[] = {
    {{"bash_20241022", "bash_20250124"},
     "Runs a command in a shell that keeps its state between calls.",
     R"({"type": "object", "properties": {
  "command": {"type": "string", "description": "What to run"},
  "restart": {"type": "boolean", "description": "true, without a command: begins a new shell"}}})"},
    {{"text_editor_20250429", "text_editor_20250728"},
     "Shows and changes files. view: path, perhaps view_range. create: path, file_text. "
     "str_replace: path, old_str, which stands in the file once, new_str. insert: path, "
     "insert_line, behind which the text goes, insert_text.",
     R"({"type": "object", "required": ["command", "path"], "properties": {
  "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
  "path": {"type": "string"},
  "file_text": {"type": "string"},
  "old_str": {"type": "string"},
  "new_str": {"type": "string"},
  "insert_line": {"type": "integer"},
  "insert_text": {"type": "string"},
  "view_range": {"type": "array", "items": {"type": "integer"},
    "description": "First and last line, counted from 1; a last line of -1: to the end"}}})"},
    {{"memory_20250818"},
     "Keeps notes in files below /memories between conversations. view: path, perhaps view_range. "
     "create: path, file_text. str_replace: path, old_str, new_str. insert: path, insert_line, "
     "insert_text. delete: path. rename: old_path, new_path.",
     R"({"type": "object", "required": ["command"], "properties": {
  "command": {"type": "string",
    "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
  "path": {"type": "string"},
  "file_text": {"type": "string"},
  "old_str": {"type": "string"},
  "new_str": {"type": "string"},
  "insert_line": {"type": "integer"},
  "insert_text": {"type": "string"},
  "old_path": {"type": "string"},
  "new_path": {"type": "string"},
  "view_range": {"type": "array", "items": {"type": "integer"}}}})"},
};

const KnownTool* FindKnown(std::string_view type) {
  const auto* const found = std::find_if(
      std::begin(kKnownTools), std::end(kKnownTools),
      [type](const KnownTool& tool) { return type == tool.types[0] || type == tool.types[1]; });
  return type.empty() || found == std::end(kKnownTools) ? nullptr : found;
}

std::string RefusalOf(std::string_view type) {
  const bool sees = type.starts_with("computer_") || type.starts_with("browser_");
  return StrCat("the tool ", Quote(type),
                sees ? " answers with images, which this version does not take"
                     : " is not one that this server runs or knows",
                "; leave it out, or send a tool of type custom, bash_20250124, "
                "text_editor_20250728 or memory_20250818");
}

// As Anthropic has it.
bool IsToolName(std::string_view name) {
  constexpr size_t kToolNameBytesMax = 128;
  return !name.empty() && name.size() <= kToolNameBytesMax &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
             std::string_view::npos;
}

OrderedJson ReadTool(Fields* fields, const OrderedJson& value, size_t index) {
  Fields tool(value, StrCat("tools[", index, "]."));
  const std::string type = tool.String("type", kNameBytesMax).value_or("custom");
  const KnownTool* const known = type == "custom" ? nullptr : FindKnown(type);
  if (type != "custom" && known == nullptr) tool.Fail("type", RefusalOf(type));
  const auto name = tool.String("name", kNameBytesMax);
  if (tool.ok() && !IsToolName(name.value_or(""))) {
    tool.WrongValue("name", "1 to 128 ASCII letters, digits, _ and -");
  }
  OrderedJson function{{"name", name.value_or("")}};
  if (known == nullptr) {
    if (auto text = tool.String("description", kToolBytesMax)) function["description"] = *text;
  }
  if (known != nullptr) {
    function["description"] = known->description;
    function["parameters"] = OrderedJson::parse(known->schema);
    tool.Int("max_characters", 1, std::numeric_limits<int>::max());  // the client's to heed
  } else if (const OrderedJson* schema = tool.Object("input_schema"); schema == nullptr) {
    tool.Missing("input_schema", "a JSON schema of what the tool takes");
  } else {
    function["parameters"] = *schema;
  }
  if (const auto strict = tool.Bool("strict")) function["strict"] = *strict;
  ReadAccepted(&tool, FieldPlace::kAnthropicTool);
  fields->Take(tool.Finish());
  if (fields->ok() && DumpJson(function).size() > kToolBytesMax) {
    fields->Fail("tools", StrCat("tools[", index, "] has ", DumpJson(function).size(),
                                 " bytes; the limit is ", kToolBytesMax));
  }
  return OrderedJson{{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace

void ReadAnthropicTools(Fields* fields, ChatPrompt* chat, Request* request) {
  OutputParsing* const parsing = &request->parsing;
  bool none = false;
  if (const OrderedJson* object = fields->Object("tool_choice")) {
    Fields choice(*object, "tool_choice.");
    const std::string type = choice.String("type", kNameBytesMax).value_or("");
    none = type == "none";
    request->tool_choice.required = type == "any" || type == "tool";
    if (type == "tool") {
      const auto name = choice.String("name", kNameBytesMax);
      if (!name || name->empty()) choice.Missing("name", "the name of one of the tools");
      request->tool_choice.tool = name.value_or("");
    } else if (!none && type != "auto" && type != "any") {
      choice.WrongValue("type", "auto, any, tool or none");
    }
    parsing->one_call = choice.Bool("disable_parallel_tool_use").value_or(false);
    fields->Take(choice.Finish());
  }
  const OrderedJson* tools = fields->Array("tools", kToolsMax);
  if (request->tool_choice.required && (tools == nullptr || tools->empty())) {
    fields->Fail("tool_choice",
                 "tool_choice requires a call, and there are no tools; send tools, or a "
                 "tool_choice of auto or none");
  }
  if (tools == nullptr) return;
  OrderedJson out = OrderedJson::array();
  std::map<std::string, size_t> names;  // and the tool of each
  for (size_t i = 0; i < tools->size() && fields->ok(); ++i) {
    out.push_back(ReadTool(fields, (*tools)[i], i));
    const auto [same, is_new] =
        names.try_emplace(out.back()["function"]["name"].get<std::string>(), i);
    if (!is_new) {
      fields->Fail(StrCat("tools[", i, "].name"),
                   StrCat("tools[", i, "].name is ", Quote(same->first), ", as tools[",
                          same->second, "].name is; each tool needs a name of its own"));
    }
  }
  parsing->tools = !out.empty() && !none;
  if (parsing->tools) chat->tools_json = DumpJson(out);
}

}  // namespace sluice::server
