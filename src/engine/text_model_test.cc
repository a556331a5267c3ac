#include "engine/text_model.h"

#include <gtest/gtest.h>

#include <string>

#include "base/source_dir_fixture.h"
#include "files/model_files.h"

namespace sluice::engine {
namespace {

constexpr const char* kOneTool = R"([{"type":"function","function":{"name":"f"}}])";

std::unique_ptr<TextModelImpl> WithTemplate(const std::string& source) {
  files::ModelFiles files = files::OpenText(SourceDir() + "/tests/golden/models/llama").value();
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
  const auto refused = model->RenderPrompt(Conversation(kOneTool), "");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().field(), "tools");
  // `sluice template` shows what the template does.
  EXPECT_EQ(model->RenderChat(Conversation(kOneTool), "", nullptr).value(), "hi");
  Request request;
  request.prompt = Conversation(kOneTool);
  int second_text = 0;
  const auto ids = model->PromptIds(request, 100, false, &second_text);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().field(), "tools");
}

TEST(TextModel, ToolsThatTheTemplateShowsAreTaken) {
  const auto model = WithTemplate(
      "{% if tools %}{{ tools[0]['function']['name'] }} {% endif %}"
      "{{ messages[0]['content'] }}");
  EXPECT_EQ(model->RenderPrompt(Conversation(kOneTool), "").value(), "f hi");
  EXPECT_EQ(model->RenderPrompt(Conversation(""), "").value(), "hi");
}

// As transformers' continue_final_message has it.
TEST(TextModel, ALastMessageMayStayOpen) {
  const auto render = [](const char* source, const char* messages) {
    ChatPrompt chat;
    chat.messages_json = messages;
    chat.continue_final_message = true;
    const auto model = WithTemplate(source);
    const auto text = model->RenderPrompt(chat, "");
    EXPECT_EQ(text.ok(), model->RenderChat(chat, "", nullptr).ok());
    return text.ok() ? *text : text.status().field() + ": " + text.status().message();
  };
  constexpr const char* kOpen =
      R"([{"role":"user","content":"hi"},{"role":"assistant","content":"The sun "}])";
  constexpr const char* kPlain =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_EQ(render(kPlain, kOpen), "<user>hi<end>\n<assistant>The sun ");
  // Where the template takes the spaces away, the answer begins behind the word.
  EXPECT_EQ(
      render("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}", kOpen),
      "<user>hi<end><assistant>The sun");
  EXPECT_EQ(render("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }} <end>{% endfor %}",
                   kOpen),
            "<user>hi <end><assistant>The sun");
  EXPECT_EQ(render(kPlain, R"([{"role":"assistant","content":""}])"), "<assistant>");
  // What the template itself puts in front of the text stays.
  for (const char* empty : {"", "  "}) {
    const std::string messages =
        std::string(R"([{"role":"assistant","content":")") + empty + R"("}])";
    EXPECT_EQ(render("{% for m in messages %}<{{ m.role }}>\n\n{{ m.content | trim }}{% endfor %}",
                     messages.c_str()),
              "<assistant>\n\n");
  }
  EXPECT_EQ(render(kPlain, R"([{"role":"user","content":"hi"}])").substr(0, 9), "messages:");
  EXPECT_EQ(render(kPlain, "[]").substr(0, 9), "messages:");
  EXPECT_EQ(
      render(kPlain, R"([{"role":"assistant","content":"a","tool_calls":[{}]}])").substr(0, 9),
      "messages:");
  EXPECT_EQ(render("{{ messages[0]['content'] }}", kOpen).substr(0, 9), "messages:");
}

// A request that was cancelled is not rendered on: else the next one waits for nothing.
TEST(TextModel, ACancelledRequestIsNotRendered) {
  const auto model = WithTemplate("{{ messages[0]['content'] }}");
  Request request;
  int second_text = 0;
  for (const char* const tools : {kOneTool, ""}) {
    request.prompt = Conversation(tools);
    EXPECT_EQ(model->PromptIds(request, 100, true, &second_text).status().code(),
              StatusCode::kCancelled);
  }
}

TEST(TextModel, TextWorkThatWasGivenUpEnds) {
  const auto model = WithTemplate("{{ messages[0]['content'] }}");
  const std::atomic<bool> cancelled = true;
  EXPECT_EQ(model->Tokenize("hi", true, true, &cancelled).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(model->Detokenize({1}, false, &cancelled).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(model->RenderChat(Conversation(""), "", &cancelled).status().code(),
            StatusCode::kCancelled);
}

// A vocabulary may have pieces of a megabyte, and a request hundreds of thousands of ids.
TEST(TextModel, TheTextOfARequestsIdsIsBounded) {
  files::ModelFiles files = files::OpenText(SourceDir() + "/tests/golden/models/llama").value();
  files.tokenizer.pieces.back() = std::string(1u << 20, 'a');
  const auto last = static_cast<int32_t>(files.tokenizer.pieces.size() - 1);
  const auto model = TextModelImpl::Make(std::move(files)).value();
  EXPECT_TRUE(model->CheckTextOf(std::vector<int32_t>(16, last), true).ok());
  const Status refused = model->CheckTextOf(std::vector<int32_t>(17, last), true);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.field(), "tokens");
}

// A few megabytes of these held up every other request for most of a second.
TEST(TextModel, ConversationsAndToolsOfManyValuesAreRefused) {
  const auto model = WithTemplate("{{ (tools or []) | length }} {{ messages | length }}");
  const auto empties = [](size_t count) {
    std::string text = "[]";
    for (size_t i = 1; i < count; ++i) text += ",[]";
    return text;
  };
  // Six more: two lists, two objects and two keys.
  const auto call = [&](size_t count) {
    ChatPrompt chat = Conversation("");
    chat.messages_json = R"([{"arguments":{"a":[)" + empties(count) + "]}}]";
    return model->RenderPrompt(chat, "");
  };
  EXPECT_TRUE(call(65536 - 6).ok());
  EXPECT_EQ(call(65536 - 5).status().message(), "messages has more than 65536 values");
  EXPECT_EQ(call(65536 - 5).status().field(), "messages");
  EXPECT_EQ(model->RenderPrompt(Conversation("[" + empties(65535) + "]"), "").value(), "65535 1");
  const auto refused = model->RenderPrompt(Conversation("[" + empties(65536) + "]"), "");
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().field(), "tools");
}

// The clock alone makes no difference.
TEST(TextModel, ATemplateWithAClockStillIgnoresTools) {
  const auto model = WithTemplate("{{ strftime_now('%Y') }} {{ messages[0]['content'] }}");
  EXPECT_FALSE(model->RenderPrompt(Conversation(kOneTool), "").ok());
}

TEST(TextModel, ItTellsItsTemplateAndTheTextsOfItsSpecialTokens) {
  const TokenizerInfo info = WithTemplate("{{ messages[0]['content'] }}")->DescribeTokenizer();
  EXPECT_EQ(info.chat_template, "{{ messages[0]['content'] }}");
  EXPECT_EQ(info.bos_token, "<s>");
  EXPECT_EQ(info.eos_token, "</s>");
}

}  // namespace
}  // namespace sluice::engine
