// What clients of other servers send is taken, and the document says so.
#include "server/shared/accepted_fields.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "server/openapi/openapi.h"
#include "server/shared/api_call.h"

namespace sluice::server {
namespace {

const ModelFacts kAcceptingModel{"tiny", 1000};

Result<ApiCall> Chat(const std::string& fields) {
  return ParseChatCall(StrCat(R"({"messages":[{"role":"user","content":"hi"}],)", fields, "}"),
                       kAcceptingModel);
}

std::string KwargsOf(const std::string& fields) {
  const auto call = Chat(fields);
  EXPECT_TRUE(call.ok()) << call.status().message();
  return call.ok() ? std::get<ChatPrompt>(call->requests[0].prompt).template_kwargs_json : "";
}

TEST(AcceptedFieldsTest, WhatCannotChangeTheAnswerIsTaken) {
  for (const char* fields :
       {R"("session_id":"a")", R"("keep_alive":"5m")", R"("keep_alive":-1)", R"("id_slot":-1)",
        R"("timings_per_token":true)", R"("return_token_ids":false)", R"("metadata":{"a":"b"})",
        R"("user":null)", R"("mirostat":0,"mirostat_tau":5.0)",
        R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})"}) {
    const auto chat = Chat(fields);
    EXPECT_TRUE(chat.ok()) << chat.status().message();
    const auto completion =
        ParseCompletionCall(StrCat(R"({"prompt":"a",)", fields, "}"), kAcceptingModel);
    EXPECT_TRUE(completion.ok()) << completion.status().message();
  }
}

TEST(AcceptedFieldsTest, WhatIsNotToldIsRefused) {
  EXPECT_EQ(Chat(R"("spaces_between_special_tokens":false)").status().field(),
            "spaces_between_special_tokens");
}

TEST(AcceptedFieldsTest, ARefusedBudgetOfThinkingIsNamedAsItWasSent) {
  const std::string object = R"("thinking":{"type":"enabled","budget_tokens":9})";
  for (const char* beside :
       {R"(,"use_beam_search":true,"beam_width":2)", R"(,"no_repeat_ngram_size":3)"}) {
    const Status nested = Chat(object + beside).status();
    EXPECT_EQ(nested.field(), "thinking.budget_tokens") << beside;
    EXPECT_NE(nested.message().find("thinking.budget_tokens"), std::string::npos) << beside;
    EXPECT_EQ(Chat(StrCat(R"("thinking_token_budget":9)", beside)).status().field(),
              "thinking_token_budget");
  }
}

TEST(AcceptedFieldsTest, ItsTypeIsChecked) {
  EXPECT_EQ(Chat(R"("keep_alive":[1])").status().message(),
            "keep_alive is an array; it must be a string or a number");
  EXPECT_EQ(Chat(R"("id_slot":"0")").status().message(),
            "id_slot is a string (\"0\"); it must be an integer");
  EXPECT_EQ(Chat(StrCat(R"("user":")", std::string(5000, 'x'), "\"")).status().field(), "user");
}

TEST(AcceptedFieldsTest, MessagesPartsAndToolsMayHaveThemToo) {
  const auto call = ParseChatCall(
      R"({"messages":[{"role":"user","id":"m1","cache_control":{"type":"ephemeral"},"content":
          [{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}],
          "tools":[{"type":"function","function":{"name":"f"},"cache_control":{}}]})",
      kAcceptingModel);
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(std::get<ChatPrompt>(call->requests[0].prompt).messages_json,
            R"([{"role":"user","content":"a"}])");
}

TEST(AcceptedFieldsTest, MinusOneIsNoLimit) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    const auto completion =
        ParseCompletionCall(StrCat(R"({"prompt":"a",")", name, "\":-1}"), kAcceptingModel);
    ASSERT_TRUE(completion.ok()) << completion.status().message();
    EXPECT_FALSE(completion->requests[0].max_tokens.has_value()) << name;
    const auto chat = Chat(StrCat("\"", name, "\":-1"));
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    EXPECT_FALSE(chat->requests[0].max_tokens.has_value()) << name;
    EXPECT_FALSE(Chat(StrCat("\"", name, "\":0")).ok());
    EXPECT_FALSE(Chat(StrCat("\"", name, "\":-2")).ok());
  }
  EXPECT_EQ(ParseCompletionCall(R"({"prompt":"a","max_tokens":0})", kAcceptingModel)
                ->requests[0]
                .max_tokens,
            0);
}

TEST(AcceptedFieldsTest, AShareOfNothingIsTheLikeliestToken) {
  const auto call = Chat(R"("top_p":0)");
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_GT(*call->requests[0].sampling.top_p, 0);
  EXPECT_LT(*call->requests[0].sampling.top_p, 1e-6);
}

TEST(AcceptedFieldsTest, ThinkingBecomesVariablesOfTheTemplate) {
  EXPECT_EQ(KwargsOf(R"("think":false)"), R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(KwargsOf(R"("think":"high")"), R"({"reasoning_effort":"high"})");
  EXPECT_EQ(KwargsOf(R"("reasoning":{"effort":"low","exclude":true})"),
            R"({"reasoning_effort":"low"})");
  EXPECT_EQ(KwargsOf(R"("reasoning_effort":"none")"),
            R"({"reasoning_effort":"none","enable_thinking":false,"thinking":false})");
  EXPECT_EQ(KwargsOf(R"("reasoning":{"enabled":true})"),
            R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(KwargsOf(R"("verbosity":"low","enable_thinking":true)"),
            R"({"enable_thinking":true,"thinking":true,"verbosity":"low"})");
  EXPECT_EQ(
      Chat(R"("think":false,"chat_template_kwargs":{"enable_thinking":true})").status().field(),
      "think");
  EXPECT_EQ(KwargsOf(R"("thinking":{"type":"disabled"})"),
            R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(KwargsOf(R"("thinking":{"type":"enabled","budget_tokens":9})"),
            R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(KwargsOf(R"("thinking":{"type":"auto"})"), "");
  const auto budget = Chat(R"("thinking":{"type":"enabled","budget_tokens":9})");
  ASSERT_TRUE(budget.ok()) << budget.status().message();
  EXPECT_EQ(budget->requests[0].thinking_budget, 9);
  EXPECT_EQ(Chat(R"("thinking_budget":8,"thinking":{"type":"enabled","budget_tokens":9})")
                .status()
                .field(),
            "thinking_budget");
  EXPECT_EQ(KwargsOf(R"("thinking":{"type":"enabled","clear_thinking":false,"keep":"all"})"),
            R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(Chat(R"("thinking":{"type":"auto","keep":1})").status().field(), "thinking.keep");
  EXPECT_EQ(Chat(R"("thinking":{"type":"much"})").status().field(), "thinking.type");
  EXPECT_EQ(Chat(R"("thinking":{})").status().field(), "thinking.type");
  EXPECT_EQ(Chat(R"("thinking":{"type":"auto","depth":1})").status().field(), "thinking.depth");
  EXPECT_EQ(Chat(R"("thinking":true)").status().field(), "thinking");
  EXPECT_EQ(Chat(R"("think":1)").status().field(), "think");
  EXPECT_EQ(Chat(R"("reasoning":{"depth":1})").status().field(), "reasoning.depth");
}

// A value that the document allows is taken, and one that it does not allow is refused.
TEST(AcceptedFieldsTest, TheDocumentAndTheServerAgreeOnTheLeastOfTokens) {
  const Json schemas = Json::parse(OpenApiDocument())["components"]["schemas"];
  for (const bool chat : {true, false}) {
    const Json& properties = schemas[chat ? "ChatRequest" : "CompletionRequest"]["properties"];
    for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
      const Json& any = properties[name]["anyOf"];
      for (const int value : {-2, -1, 0, 1}) {
        const bool allowed = any[0]["enum"][0] == value || value >= any[1]["minimum"].get<int>();
        const std::string field = StrCat("\"", name, "\":", value);
        const bool taken =
            chat ? Chat(field).ok()
                 : ParseCompletionCall(StrCat(R"({"prompt":"a",)", field, "}"), kAcceptingModel)
                       .ok();
        EXPECT_EQ(taken, allowed) << field << (chat ? " of chat" : " of completions");
      }
    }
  }
}

TEST(AcceptedFieldsTest, TheDocumentHasThem) {
  const Json schemas = Json::parse(OpenApiDocument())["components"]["schemas"];
  const Json& request = schemas["ChatRequest"]["properties"];
  EXPECT_EQ(request["keep_alive"]["type"], (Json{"string", "number", "null"}));
  EXPECT_EQ(request["mirostat"]["enum"], (Json{0, nullptr}));
  EXPECT_TRUE(request["stream_options"]["properties"].contains("continuous_usage_stats"));
  EXPECT_TRUE(schemas["Message"]["properties"].contains("cache_control"));
  EXPECT_TRUE(schemas["TextPart"]["properties"].contains("cache_control"));
  EXPECT_TRUE(schemas["Tool"]["properties"].contains("cache_control"));
}

}  // namespace
}  // namespace sluice::server
