#include "engine/hold_to_calls.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "engine/tagged_parameters.h"
#include "engine/written_arguments.h"
#include "text/json_schema.h"

namespace sluice::engine {
namespace {

bool IsStrict(const OrderedJson& function) {
  const auto strict = function.find("strict");
  return strict != function.end() && *strict == true;
}

Status CannotHold(const OrderedJson& function, const Status& why) {
  return InvalidArgument(StrCat("the strict tool ", Quote(function["name"].get<std::string>()),
                                " has parameters that answers cannot be held to: ", why.message()),
                         "tools");
}

// The function with what its arguments are held to.
Result<text::CallableTool> CallableFunction(const OrderedJson& function,
                                            const text::ToolSchemas& kinds,
                                            const text::CallShape& shape,
                                            const text::SpecialMark& special) {
  const text::ParameterShape* const tags = shape.parameters;
  text::CallableTool tool;
  tool.name = function["name"].get<std::string>();
  const auto found = function.find("parameters");
  const OrderedJson schema = found == function.end() || found->is_null()
                                 ? OrderedJson{{"type", "object"},
                                               {"properties", OrderedJson::object()},
                                               {"additionalProperties", false}}
                                 : *found;
  const auto held = text::RewriteSchema(DumpJson(schema), /*closed=*/true);
  Status status = held.status();
  if (held.ok() && tags != nullptr) {
    auto parameters = TaggedParameters(*held, kinds, tool.name, *tags);
    status = parameters.status();
    if (parameters.ok()) tool.parameters = *std::move(parameters);
  } else if (held.ok() && shape.form != nullptr) {
    auto written = WrittenArguments(*held, *shape.form, special);
    status = written.status();
    if (written.ok()) tool.written = *std::move(written);
  } else if (held.ok()) {
    // As the client wrote it: the grammar rewrites it.
    tool.schema = schema;
  }
  if (status.ok()) return tool;
  if (IsStrict(function)) return CannotHold(function, status);
  tool.schema = {{"type", "object"}};
  if (tags != nullptr) tool.parameters = AnyTaggedParameters(*tags);
  if (shape.form != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(const OrderedJson any,
                            text::RewriteSchema(DumpJson(tool.schema), /*closed=*/true));
    SLUICE_ASSIGN_OR_RETURN(tool.written, WrittenArguments(any, *shape.form, special));
  }
  return tool;
}

// The functions with a name among the request's tools.
Result<std::vector<OrderedJson>> FunctionsOf(const Request& request) {
  std::vector<OrderedJson> functions;
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  if (chat == nullptr || chat->tools_json.empty()) return functions;
  SLUICE_ASSIGN_OR_RETURN(OrderedJson list, ParseOrderedJson(chat->tools_json, "tools"));
  for (OrderedJson& tool : list) {
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    if (function == tool.end() || !function->is_object()) continue;
    const auto name = function->find("name");
    if (name != function->end() && name->is_string()) functions.push_back(std::move(*function));
  }
  return functions;
}

// Those that the answer may call: the one that tool_choice names, or all.
Result<std::vector<text::CallableTool>> CallableTools(const Request& request,
                                                      const std::vector<OrderedJson>& functions,
                                                      const text::CallShape& shape,
                                                      const text::SpecialMark& special) {
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  text::ToolSchemas kinds;  // which values between tags alone need
  if (shape.parameters != nullptr && chat != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(kinds, text::ToolSchemas::Make(chat->tools_json));
  }
  const std::string& wanted = request.tool_choice.tool;
  std::vector<text::CallableTool> callable;
  for (const OrderedJson& function : functions) {
    if (!wanted.empty() && function["name"] != wanted) continue;
    SLUICE_ASSIGN_OR_RETURN(text::CallableTool tool,
                            CallableFunction(function, kinds, shape, special));
    callable.push_back(std::move(tool));
  }
  return callable;
}

}  // namespace

Result<bool> HoldToCalls(const text::OutputFormat& output, const text::Tokenizer& tokenizer,
                         Request* request) {
  const ToolChoice& choice = request->tool_choice;
  if (!choice.required && !request->parsing.tools) return false;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<OrderedJson> functions, FunctionsOf(*request));
  if (!choice.required && std::none_of(functions.begin(), functions.end(), IsStrict)) return false;
  const bool held = request->grammar.kind != Grammar::Kind::kNone || !request->choice.empty();
  if (held && !choice.required) return false;  // the answer is what that says
  if (held) {
    return InvalidArgument(
        "tool_choice requires a call, and another field holds the answer to something else; send "
        "one of them",
        "tool_choice");
  }
  const auto family = output.HeldCalls();
  if (!family.ok()) return family.status();
  const text::SpecialMark special = [&](std::string_view mark) {
    const text::TokenId id = tokenizer.Find(mark);
    return id >= 0 && tokenizer.IsSpecial(id) ? id : -1;
  };
  SLUICE_ASSIGN_OR_RETURN(const std::vector<text::CallableTool> tools,
                          CallableTools(*request, functions, *(*family)->shape, special));
  if (tools.empty()) {
    return InvalidArgument(choice.tool.empty()
                               ? std::string("tool_choice requires a call, and there are no tools")
                               : StrCat("tool_choice names the tool ", Quote(choice.tool),
                                        ", which is not among tools"),
                           "tool_choice");
  }
  for (const auto& tool : tools) SLUICE_RETURN_IF_ERROR(text::CheckToolName(tool.name));
  request->grammar = text::CallGrammar(*(*family)->shape, (*family)->marks, tools, choice.required,
                                       request->parsing.one_call || !choice.tool.empty(), special);
  return true;
}

}  // namespace sluice::engine
