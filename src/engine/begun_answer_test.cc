// Answers that go on with the last message: what they are held to, and who takes them apart, has
// seen that message's text as if the model had written it.
#include <future>
#include <set>

#include "base/json.h"
#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

constexpr char kBegunSchema[] = R"({"type": "object", "properties": {
    "colour": {"enum": ["red", "green", "blue"]}, "done": {"type": "boolean"}},
    "required": ["colour", "done"], "additionalProperties": false})";

Request GoingOn(const std::string& begun) {
  Request request = TinyRequest({}, 110);
  ChatPrompt chat;
  chat.messages_json = DumpJson(OrderedJson::array(
      {{{"role", "user"}, {"content", "Well?"}}, {{"role", "assistant"}, {"content", begun}}}));
  chat.continue_final_message = true;
  request.prompt = chat;
  return request;
}

EngineOptions BegunOptions() {
  EngineOptions options = TinyOptions();
  options.tool_parser = "hermes";
  options.reasoning_parser = "think";
  options.max_model_len = 256;
  return options;
}

TEST(BegunAnswer, ASchemaHoldsWhatIsBegunAndWhatComesBehindTogether) {
  const auto engine = OpenTiny(BegunOptions());
  ASSERT_NE(engine, nullptr);
  const std::string whole = R"({"colour":"green","done":true})";
  for (size_t cut = 1; cut <= whole.size(); ++cut) {
    const std::string begun = whole.substr(0, cut);
    Request request = GoingOn(begun);
    request.grammar = {.kind = Grammar::Kind::kJsonSchema, .text = kBegunSchema};
    request.n = 1 + static_cast<int>(cut % 3);
    if (cut % 4 == 0) request.beams.widths = {request.n};
    if (cut % 4 == 0) request.sampling = {};
    const auto answer = Ask(*engine, request);
    ASSERT_TRUE(answer->error.ok()) << begun << ": " << answer->error.message();
    for (const auto& [index, choice] : answer->choices) {
      if (choice.finish == FinishReason::kAbsent) continue;
      EXPECT_EQ(choice.finish, FinishReason::kStop);
      const auto json = ParseJson(begun + choice.text, "the answer");
      ASSERT_TRUE(json.ok()) << begun << " and " << choice.text;
      EXPECT_TRUE((std::set<Json>{"red", "green", "blue"}.contains((*json)["colour"])));
      EXPECT_TRUE((*json)["done"].is_boolean());
    }
  }
  ExpectNothingLeft(*engine);
}

TEST(BegunAnswer, ItIsOneOfTheTexts) {
  const auto engine = OpenTiny(BegunOptions());
  ASSERT_NE(engine, nullptr);
  Request request = GoingOn("red w");
  request.choice = {"red", "red wine", "red water", "blue"};
  const auto answer = Ask(*engine, request);
  ASSERT_TRUE(answer->error.ok()) << answer->error.message();
  EXPECT_TRUE((std::set<std::string>{"ine", "ater"}.contains(answer->choices[0].text)))
      << answer->choices[0].text;
}

TEST(BegunAnswer, WhatDoesNotFitIsRefusedBeforeItRuns) {
  const auto engine = OpenTiny(BegunOptions());
  ASSERT_NE(engine, nullptr);
  for (const char* begun :
       {"Here it is: {", R"({"colour":"grey)", R"({"colour":"red","done":true}.)"}) {
    Request request = GoingOn(begun);
    request.grammar = {.kind = Grammar::Kind::kJsonSchema, .text = kBegunSchema};
    const auto answer = Ask(*engine, request);
    EXPECT_EQ(answer->error.code(), StatusCode::kInvalidArgument) << begun;
    EXPECT_EQ(answer->error.field(), "messages");
    EXPECT_THAT(answer->error.message(), HasSubstr("held to the JSON schema together with"));
  }
  Request request = GoingOn("green");
  request.choice = {"red", "blue"};
  const auto answer = Ask(*engine, request);
  EXPECT_THAT(answer->error.message(), HasSubstr("held to choice together with"));
  EXPECT_THAT(answer->error.message(), HasSubstr("\"g"));
  ExpectNothingLeft(*engine);
}

TEST(BegunAnswer, BehindThinkingThatHasEndedOrIsOpenASchemaHolds) {
  const auto engine = OpenTiny(BegunOptions());
  ASSERT_NE(engine, nullptr);
  for (const std::string thought : {"<think>Hm.</think>\n", "<think>Hm.</think>", "\n<think>Hm"}) {
    const std::string begun = thought.ends_with("Hm") ? "" : R"({"colour":"re)";
    Request request = GoingOn(thought + begun);
    request.grammar = {.kind = Grammar::Kind::kJsonSchema, .text = kBegunSchema};
    request.parsing.reasoning = true;
    request.thinking_budget = 5;
    const auto answer = Ask(*engine, request);
    ASSERT_TRUE(answer->error.ok()) << thought << ": " << answer->error.message();
    const auto json = ParseJson(begun + answer->choices[0].text, "the answer");
    ASSERT_TRUE(json.ok()) << thought << begun << answer->choices[0].text;
    EXPECT_TRUE((*json)["done"].is_boolean());
  }
}

TEST(BegunAnswer, ACallThatIsOpenInItIsToldWhole) {
  const auto engine = OpenTiny(BegunOptions());
  ASSERT_NE(engine, nullptr);
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)";
  const std::string whole = "So: " + call + " " + call;
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    const std::string begun = whole.substr(0, cut);
    Request request = GoingOn(begun);
    request.choice = {whole};
    request.max_tokens = 180;
    request.parsing.tools = true;
    std::string text, names, arguments;
    std::promise<FinishReason> last;
    const auto id = engine->Submit(request, [&](TextDelta&& delta) {
      text += delta.text;
      for (const ToolCallDelta& piece : delta.tool_calls) {
        names += piece.name;
        if (!piece.name.empty()) {
          EXPECT_EQ(piece.index, static_cast<int>(names.size()) - 1);
        }
        arguments += piece.arguments;
      }
      if (delta.last) last.set_value(delta.finish);
    });
    ASSERT_TRUE(id.ok());
    const FinishReason finish = last.get_future().get();
    // The bracket that ends a call's object completes it.
    const size_t ended =
        (cut > whole.find("}}") + 1 ? 1 : 0) + (cut > whole.rfind("}}") + 1 ? 1 : 0);
    EXPECT_EQ(names, std::string(2 - ended, 'f')) << begun;
    EXPECT_EQ(arguments.size(), 8 * (2 - ended)) << begun;
    EXPECT_EQ(finish, ended == 2 ? FinishReason::kStop : FinishReason::kToolCalls) << begun;
    EXPECT_EQ(text, cut < 3 ? whole.substr(cut, 3 - cut) : "") << begun;
  }
  ExpectNothingLeft(*engine);
}

}  // namespace
}  // namespace sluice::engine
