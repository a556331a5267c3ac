// sluice template: renders a conversation, read as one JSON object from standard input.
#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <memory>

#include "base/json.h"
#include "cli/cli.h"
#include "sluice/engine.h"

namespace sluice::cli {
namespace {

Status Render(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model, TextModel::Open(path));
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  SLUICE_ASSIGN_OR_RETURN(OrderedJson context, ParseOrderedJson(input, "standard input"));
  if (!context.is_object()) return InvalidArgument("standard input is not a JSON object");
  const auto take = [&](const char* key) {
    OrderedJson value;
    if (context.contains(key)) {
      value = context[key];
      context.erase(key);
    }
    return value;
  };
  ChatPrompt chat;
  const OrderedJson messages = take("messages");
  chat.messages_json = DumpJson(messages.is_null() ? OrderedJson::array() : messages);
  if (const OrderedJson tools = take("tools"); !tools.is_null()) chat.tools_json = DumpJson(tools);
  const OrderedJson prompt = take("add_generation_prompt");
  if (!prompt.is_null() && !prompt.is_boolean()) {
    return InvalidArgument("add_generation_prompt is not true or false", "add_generation_prompt");
  }
  chat.add_generation_prompt = prompt.is_boolean() && prompt.get<bool>();
  const OrderedJson now = take("now");
  if (!now.is_null() && !now.is_string()) return InvalidArgument("now is not a string", "now");
  chat.template_kwargs_json = DumpJson(context);
  SLUICE_ASSIGN_OR_RETURN(
      const std::string text,
      model->RenderChat(chat, now.is_string() ? now.get<std::string>() : std::string()));
  std::cout << text;
  return OkStatus();
}

}  // namespace

Action SetUpTemplate(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  app.add_option("model", *path, "a model, or a bare .jinja file")->required()->type_name("MODEL");
  app.footer(
      "Standard input: one JSON object with messages, tools, add_generation_prompt, bos_token,\n"
      "eos_token, now (YYYY-MM-DDTHH:MM:SS, local time); any other key is a template variable.");
  return [path] { return Render(*path); };
}

}  // namespace sluice::cli
