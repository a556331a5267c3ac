// What each API's tool_choice and thinking budget become.
#include <gtest/gtest.h>

#include <string>

#include "base/str_cat.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

constexpr const char* kTool = R"({"type":"function","function":{"name":"f"}})";

class ToolChoiceTest : public RoutesTest {
 protected:
  // What the engine was asked for.
  Request Chat(const std::string& fields) {
    return Ask("/v1/chat/completions",
               StrCat(R"({"messages":[{"role":"user","content":"hi"}])", fields, "}"));
  }
  Request Ask(const std::string& path, const std::string& body) {
    const size_t before = engine_.submitted.size();
    auto exchange = Send("POST", path, body);
    if (engine_.submitted.size() != before + 1) {
      ADD_FAILURE() << exchange->reply.body;
      return {};
    }
    return engine_.submitted.back().request;
  }
  std::string Refused(const std::string& path, const std::string& body) {
    auto exchange = Send("POST", path, body);
    EXPECT_EQ(exchange->reply.status, 400) << body;
    return exchange->body()["error"]["message"].get<std::string>();
  }
};

TEST_F(ToolChoiceTest, ChatHasEachForm) {
  const std::string tools = StrCat(R"(,"tools":[)", kTool, "]");
  EXPECT_FALSE(Chat(tools + R"(,"tool_choice":"auto")").tool_choice.required);
  const Request any = Chat(tools + R"(,"tool_choice":"required")");
  EXPECT_TRUE(any.tool_choice.required && any.parsing.tools);
  EXPECT_EQ(any.tool_choice.tool, "");
  const Request named =
      Chat(tools + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})");
  EXPECT_TRUE(named.tool_choice.required && named.parsing.tools);
  EXPECT_EQ(named.tool_choice.tool, "f");
  EXPECT_FALSE(Chat(tools + R"(,"tool_choice":"none")").parsing.tools);
}

TEST_F(ToolChoiceTest, OtherApisHaveTheirOwn) {
  const Request response =
      Ask("/v1/responses", R"({"input":"hi","tools":[{"type":"function","name":"f"}],)"
                           R"("tool_choice":{"type":"function","name":"f"}})");
  EXPECT_EQ(response.tool_choice.tool, "f");
  const std::string turn = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":9,)"
                           R"("tools":[{"name":"f","input_schema":{},"strict":true}],)";
  const Request any = Ask("/v1/messages", turn + R"("tool_choice":{"type":"any"}})");
  EXPECT_TRUE(any.tool_choice.required && any.tool_choice.tool.empty());
  EXPECT_NE(std::get<ChatPrompt>(any.prompt).tools_json.find(R"("strict":true)"),
            std::string::npos);
  const Request tool = Ask("/v1/messages", turn + R"("tool_choice":{"type":"tool","name":"f"}})");
  EXPECT_EQ(tool.tool_choice.tool, "f");
}

TEST_F(ToolChoiceTest, ACallThatNoToolCanAnswerIsRefused) {
  const std::string hi = R"({"messages":[{"role":"user","content":"hi"}],)";
  for (const auto& [path, body] : std::vector<std::pair<std::string, std::string>>{
           {"/v1/chat/completions", hi + R"("tool_choice":"required"})"},
           {"/v1/chat/completions", hi + R"("tool_choice":"required","tools":[]})"},
           {"/v1/responses", R"({"input":"hi","tool_choice":"required"})"},
           {"/v1/messages", hi + R"("tool_choice":{"type":"any"}})"}}) {
    EXPECT_NE(Refused(path, body).find("there are no tools"), std::string::npos) << path;
  }
  EXPECT_NE(Refused("/v1/chat/completions",
                    StrCat(hi, R"("tools":[)", kTool, R"(],"tool_choice":{"type":"function"}})"))
                .find("tool_choice.function is missing"),
            std::string::npos);
}

TEST_F(ToolChoiceTest, ABudgetOfThinkingHasSeveralNames) {
  for (const char* name : {"thinking_budget", "thinking_token_budget", "thinking_budget_tokens"}) {
    EXPECT_EQ(Chat(StrCat(",\"", name, "\":64")).thinking_budget, 64) << name;
  }
  EXPECT_EQ(Chat(R"(,"thinking_budget":-1)").thinking_budget, -1);
  EXPECT_FALSE(Chat("").thinking_budget.has_value());
  const Request message =
      Ask("/v1/messages", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":9,)"
                          R"("thinking":{"type":"enabled","budget_tokens":1024}})");
  EXPECT_EQ(message.thinking_budget, 1024);
  EXPECT_NE(Refused("/v1/chat/completions",
                    R"({"messages":[{"role":"user","content":"hi"}],"thinking_budget":1,)"
                    R"("thinking_token_budget":2})")
                .find("send one of them"),
            std::string::npos);
}

TEST_F(ToolChoiceTest, TheThinkingOfARunningAnswerIsEnded) {
  const auto end = [&](const std::string& id) {
    return Send("POST", "/v1/chat/completions/control",
                StrCat(R"({"action":"end_thinking","id":")", id, "\"}"));
  };
  auto exchange =
      Send("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(end("chatcmpl-the-id")->reply.status, 200);
  EXPECT_EQ(engine_.thought, (std::vector<RequestId>{1}));
  EXPECT_TRUE(engine_.cancelled.empty());
  engine_.Emit(0, "done", FinishReason::kStop, true);
  EXPECT_EQ(exchange->body()["choices"][0]["finish_reason"], "stop");
}

}  // namespace
}  // namespace sluice::server
