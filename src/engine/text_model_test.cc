#include "engine/text_model.h"

#include <gtest/gtest.h>

#include <string>

#include "files/model_files.h"

namespace sluice::engine {
namespace {

constexpr const char* kTools = R"([{"type":"function","function":{"name":"f"}}])";

std::unique_ptr<TextModelImpl> WithTemplate(const std::string& source) {
  files::ModelFiles files =
      files::OpenText(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/models/llama").value();
  files.chat_template = source;
  return std::move(TextModelImpl::Make(std::move(files)).value());
}

ChatPrompt Conversation(const std::string& tools) {
  ChatPrompt chat;
  chat.messages_json = R"([{"role":"user","content":"hi"}])";
  chat.tools_json = tools;
  return chat;
}

TEST(TextModel, ToolsThatTheTemplateLeavesOutAreRefused) {
  const auto model = WithTemplate("{{ messages[0]['content'] }}");
  EXPECT_EQ(model->RenderPrompt(Conversation(""), "").value(), "hi");
  const auto refused = model->RenderPrompt(Conversation(kTools), "");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().field(), "tools");
  // `sluice template` shows what the template does.
  EXPECT_EQ(model->RenderChat(Conversation(kTools), "").value(), "hi");
  Request request;
  request.prompt = Conversation(kTools);
  const auto ids = model->PromptIds(request, 100, false);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().field(), "tools");
}

TEST(TextModel, ToolsThatTheTemplateShowsAreTaken) {
  const auto model = WithTemplate(
      "{% if tools %}{{ tools[0]['function']['name'] }} {% endif %}"
      "{{ messages[0]['content'] }}");
  EXPECT_EQ(model->RenderPrompt(Conversation(kTools), "").value(), "f hi");
  EXPECT_EQ(model->RenderPrompt(Conversation(""), "").value(), "hi");
}

// The clock alone makes no difference.
TEST(TextModel, ATemplateWithAClockStillIgnoresTools) {
  const auto model = WithTemplate("{{ strftime_now('%Y') }} {{ messages[0]['content'] }}");
  EXPECT_FALSE(model->RenderPrompt(Conversation(kTools), "").ok());
}

}  // namespace
}  // namespace sluice::engine
