// Anthropic's /v1/messages: bodies that are right and wrong, answers whole and streamed, errors.
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "server/openapi/openapi.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

const ModelFacts kModel{"tiny", 1000};
constexpr const char* kBody =
    R"({"max_tokens":5,"stop_sequences":["END"],"messages":[{"role":"user","content":"hi"}])";

class MessagesTest : public RoutesTest {
 protected:
  std::shared_ptr<FakeExchange> Post(const std::string& more = "", const std::string& key = "") {
    return Send("POST", "/v1/messages", StrCat(kBody, more, "}"), key);
  }
  void End(FinishReason finish, const std::string& match = "") {
    TextDelta delta;
    delta.finish = finish;
    delta.stop_match = match;
    delta.last = true;
    delta.usage.prompt_tokens = 9;
    delta.usage.cached_tokens = 4;
    delta.usage.completion_tokens = 2;
    engine_.EmitDelta(0, std::move(delta));
  }
};

Result<ApiCall> Parse(const std::string& fields) {
  return ParseMessagesCall(StrCat("{", fields, "}"), kModel);
}

std::string FieldOf(const std::string& fields) {
  const auto call = Parse(fields);
  EXPECT_FALSE(call.ok()) << fields;
  return call.status().field();
}

const ChatPrompt& PromptOf(const Result<ApiCall>& call) {
  EXPECT_TRUE(call.ok()) << call.status().message();
  return std::get<ChatPrompt>(call->requests.at(0).prompt);
}

TEST_F(MessagesTest, AnswersWhole) {
  auto exchange = Post();
  ASSERT_EQ(engine_.submitted.size(), 1u) << exchange->reply.body;
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 5);
  EXPECT_EQ(engine_.submitted[0].request.stop, std::vector<std::string>{"END"});
  engine_.Emit(0, "Hel");
  engine_.Emit(0, "lo");
  End(FinishReason::kStop, "<eos>");
  ASSERT_EQ(exchange->reply.status, 200);
  const Json body = exchange->body();
  EXPECT_EQ(body["type"], "message");
  EXPECT_EQ(body["role"], "assistant");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["id"].get<std::string>().rfind("msg_", 0), 0u);
  EXPECT_EQ(body["content"], Json::parse(R"([{"type":"text","text":"Hello"}])"));
  EXPECT_EQ(body["stop_reason"], "end_turn");
  EXPECT_TRUE(body["stop_sequence"].is_null());
  EXPECT_EQ(body["usage"]["input_tokens"], 5);
  EXPECT_EQ(body["usage"]["cache_read_input_tokens"], 4);
  EXPECT_EQ(body["usage"]["output_tokens"], 2);
}

TEST_F(MessagesTest, SaysWhyAnAnswerEnded) {
  auto limit = Post();
  End(FinishReason::kLength);
  EXPECT_EQ(limit->body()["stop_reason"], "max_tokens");
  EXPECT_EQ(limit->body()["content"], Json::array());
  engine_.submitted.clear();
  auto stop = Post();
  End(FinishReason::kStop, "END");
  EXPECT_EQ(stop->body()["stop_reason"], "stop_sequence");
  EXPECT_EQ(stop->body()["stop_sequence"], "END");
}

TEST_F(MessagesTest, StreamsEveryKindOfEvent) {
  auto exchange = Post(R"(,"stream":true)");
  engine_.Emit(0, "Hel");
  engine_.Emit(0, "lo");
  End(FinishReason::kStop, "END");
  const auto events = exchange->named_events();
  std::vector<std::string> names;
  for (const auto& [name, json] : events) {
    names.push_back(name);
    EXPECT_EQ(json["type"], name);
  }
  ASSERT_EQ(names,
            (std::vector<std::string>{"message_start", "ping", "content_block_start",
                                      "content_block_delta", "content_block_delta",
                                      "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(events[0].second["message"]["usage"]["input_tokens"], 3);
  EXPECT_TRUE(events[0].second["message"]["stop_reason"].is_null());
  EXPECT_EQ(events[2].second["content_block"], Json::parse(R"({"type":"text","text":""})"));
  EXPECT_EQ(events[4].second["delta"], Json::parse(R"({"type":"text_delta","text":"lo"})"));
  EXPECT_EQ(events[4].second["index"], 0);
  EXPECT_EQ(events[6].second["delta"]["stop_sequence"], "END");
  EXPECT_EQ(events[6].second["usage"]["output_tokens"], 2);
  EXPECT_TRUE(exchange->ended);
}

TEST_F(MessagesTest, AStreamWithoutTextHasNoBlock) {
  auto exchange = Post(R"(,"stream":true)");
  End(FinishReason::kStop);
  const auto events = exchange->named_events();
  ASSERT_EQ(events.size(), 4u) << exchange->streamed;
  EXPECT_EQ(events[2].first, "message_delta");
}

constexpr const char* kTools =
    R"(,"tools":[{"name":"weather","input_schema":{}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true})";

TEST_F(MessagesTest, ThinkingAndCallsAreBlocks) {
  auto exchange = Post(kTools);
  EXPECT_TRUE(engine_.submitted.at(0).request.parsing.tools);
  EXPECT_TRUE(engine_.submitted[0].request.parsing.reasoning);
  EXPECT_TRUE(engine_.submitted[0].request.parsing.one_call);
  ThinkSpeakAndCall();
  EXPECT_EQ(exchange->body()["content"], Json::parse(R"([
      {"type":"thinking","thinking":"hm","signature":""},
      {"type":"text","text":"I look."},
      {"type":"tool_use","id":"call_1","name":"weather","input":{"city":"Rome"}},
      {"type":"tool_use","id":"call_2","name":"time","input":{"arguments":"now"}}])"));
  EXPECT_EQ(exchange->body()["stop_reason"], "tool_use");
}

TEST_F(MessagesTest, ThinkingThatIsNotToBeShownIsAnEmptyBlock) {
  const std::string hidden = R"(,"thinking":{"type":"adaptive","display":"omitted"})";
  auto whole = Post(hidden);
  ThinkSpeakAndCall();
  EXPECT_EQ(whole->body()["content"][0],
            Json::parse(R"({"type":"thinking","thinking":"","signature":""})"));
  auto stream = Post(hidden + R"(,"stream":true)");
  ThinkSpeakAndCall();
  EXPECT_EQ(stream->streamed.find("thinking_delta"), std::string::npos) << stream->streamed;
  EXPECT_NE(stream->streamed.find(R"("content_block":{"type":"thinking")"), std::string::npos);
}

TEST_F(MessagesTest, ThinkingAndCallsAreStreamedAsBlocks) {
  auto exchange = Post(std::string(kTools) + R"(,"stream":true)");
  ThinkSpeakAndCall();
  std::vector<std::string> seen;
  for (const auto& [name, json] : exchange->named_events()) {
    if (name == "content_block_start") seen.push_back(json["content_block"]["type"]);
    if (name == "content_block_delta") seen.push_back(json["delta"]["type"]);
    if (name == "content_block_stop") seen.push_back(StrCat("end ", json["index"].get<int>()));
    if (name == "message_delta") seen.push_back(json["delta"]["stop_reason"]);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"thinking", "thinking_delta", "thinking_delta", "end 0",
                                            "text", "text_delta", "end 1", "tool_use",
                                            "input_json_delta", "input_json_delta", "end 2",
                                            "tool_use", "input_json_delta", "end 3", "tool_use"}));
}

TEST_F(MessagesTest, ErrorsHaveTheirForm) {
  UseKeys("secret\n");
  const auto check = [](const FakeExchange& exchange, int status, const std::string& type) {
    EXPECT_EQ(exchange.reply.status, status);
    EXPECT_EQ(exchange.body()["type"], "error");
    EXPECT_EQ(exchange.body()["error"]["type"], type);
    EXPECT_FALSE(exchange.body()["error"]["message"].get<std::string>().empty());
  };
  check(*Post(), 401, "authentication_error");
  check(*Post(R"(,"surprise":1)", "Bearer secret"), 400, "invalid_request_error");
  check(*Post(R"(,"model":"claude")", "Bearer secret"), 404, "not_found_error");
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  check(*Post("", "Bearer secret"), 429, "rate_limit_error");
  engine_.submit_status = Status(StatusCode::kUnavailable, "draining");
  check(*Post("", "Bearer secret"), 503, "overloaded_error");
  check(*Send("POST", "/v1/messages/count_tokens", "{}", "Bearer secret"), 400,
        "invalid_request_error");
}

TEST_F(MessagesTest, AnErrorWithinAStreamIsAnEvent) {
  auto exchange = Post(R"(,"stream":true)");
  engine_.Emit(0, "Hel");
  TextDelta delta;
  delta.finish = FinishReason::kError;
  delta.last = true;
  delta.error = Status(StatusCode::kOutOfMemory, "no memory is left");
  engine_.EmitDelta(0, std::move(delta));
  const auto events = exchange->named_events();
  EXPECT_EQ(events.back().first, "error");
  EXPECT_EQ(events.back().second["error"]["message"], "no memory is left");
  EXPECT_TRUE(exchange->closed);
}

TEST_F(MessagesTest, CountsTokens) {
  auto exchange = Send("POST", "/v1/messages/count_tokens",
                       R"({"messages":[{"role":"user","content":"hi"}],"system":"Be kind."})");
  // The fake engine renders a conversation as its JSON and has a token per byte.
  EXPECT_EQ(
      exchange->body()["input_tokens"],
      std::string(R"([{"role":"system","content":"Be kind."},{"role":"user","content":"hi"}])")
          .size());
}

TEST(MessagesBodyTest, BlocksBecomeAConversation) {
  const auto call = Parse(R"(
      "system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},
                {"type":"text","text":"b"}],
      "messages":[
        {"role":"user","content":[{"type":"text","text":"Weather?"}]},
        {"role":"assistant","content":[
          {"type":"thinking","thinking":"hm","signature":"s"},
          {"type":"redacted_thinking","data":"xx"},
          {"type":"text","text":"I look.","citations":null},
          {"type":"tool_use","id":"t1","name":"weather","input":{"city":"Rome"}}]},
        {"role":"user","content":[
          {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"sun"}]},
          {"type":"tool_result","tool_use_id":"t2","content":"rain","is_error":true},
          {"type":"text","text":"And now?"}]}],
      "tools":[{"name":"weather","description":"d","input_schema":{"type":"object"}}],
      "thinking":{"type":"enabled","budget_tokens":2048})");
  const ChatPrompt& prompt = PromptOf(call);
  EXPECT_EQ(Json::parse(prompt.messages_json), Json::parse(R"([
      {"role":"system","content":"a\nb"},
      {"role":"user","content":"Weather?"},
      {"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[
        {"id":"t1","type":"function",
         "function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},
      {"role":"tool","tool_call_id":"t1","content":"sun"},
      {"role":"tool","tool_call_id":"t2","content":"rain"},
      {"role":"user","content":"And now?"}])"));
  EXPECT_EQ(Json::parse(prompt.tools_json), Json::parse(R"([{"type":"function","function":
      {"name":"weather","description":"d","parameters":{"type":"object"}}}])"));
  EXPECT_TRUE(Json::parse(prompt.template_kwargs_json)["enable_thinking"]);
  EXPECT_TRUE(prompt.adapt_history);
}

TEST(MessagesBodyTest, AResultAloneNeedsNoUser) {
  const auto call = Parse(R"("messages":[{"role":"user","content":
      [{"type":"tool_result","tool_use_id":"t1"}]}])");
  EXPECT_EQ(Json::parse(PromptOf(call).messages_json),
            Json::parse(R"([{"role":"tool","tool_call_id":"t1","content":""}])"));
}

TEST(MessagesBodyTest, NoToolsWhereTheChoiceIsNone) {
  const auto call = Parse(R"("messages":[{"role":"user","content":"a"}],
      "tool_choice":{"type":"none"},"tools":[{"name":"f","input_schema":{}}])");
  EXPECT_EQ(PromptOf(call).tools_json, "");
}

TEST(MessagesBodyTest, AnAnswerMayBeHeldToASchema) {
  const auto call = Parse(R"("messages":[{"role":"user","content":"a"}],
      "output_config":{"format":{"type":"json_schema","schema":{"type":"array"}}})");
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->requests.at(0).grammar.text, R"({"type":"array"})");
}

// A body as agents send it.
TEST(MessagesBodyTest, AnAgentsBodyIsTaken) {
  const auto call = Parse(R"(
      "model":"tiny","max_tokens":32000,"stream":true,"temperature":1,
      "betas":["context-management-2025-06-27","interleaved-thinking-2025-05-14"],
      "metadata":{"user_id":"user_1"},"speed":"standard",
      "thinking":{"type":"adaptive","display":"omitted"},
      "output_config":{"effort":"high"},
      "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"},
        {"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":1000},
         "keep":{"type":"tool_uses","value":3},"clear_tool_inputs":true}]},
      "system":[{"type":"text","text":"You help.","cache_control":{"type":"ephemeral","ttl":"1h"}}],
      "tools":[{"name":"Read","description":"d","input_schema":{"type":"object"},
                "cache_control":{"type":"ephemeral"},"type":"custom","eager_input_streaming":true},
               {"type":"bash_20250124","name":"bash"},
               {"type":"text_editor_20250728","name":"str_replace_based_edit_tool",
                "max_characters":9000},
               {"type":"memory_20250818","name":"memory"}],
      "messages":[{"role":"user","content":[{"type":"text","text":"go",
        "cache_control":{"type":"ephemeral"}}]}])");
  const ChatPrompt& prompt = PromptOf(call);
  EXPECT_FALSE(call->shows_reasoning);
  EXPECT_FALSE(prompt.continue_final_message);
  EXPECT_EQ(Json::parse(prompt.template_kwargs_json),
            Json::parse(R"({"reasoning_effort":"high"})"));
  const Json tools = Json::parse(prompt.tools_json);
  ASSERT_EQ(tools.size(), 4u);
  for (const Json& tool : tools) {
    EXPECT_EQ(tool["function"]["parameters"]["type"], "object") << tool;
    EXPECT_NE(tool["function"].value("description", ""), "") << tool;
  }
  EXPECT_EQ(tools[1]["function"]["name"], "bash");
  EXPECT_TRUE(tools[1]["function"]["parameters"]["properties"].contains("command"));
}

TEST(MessagesBodyTest, TheAnswerGoesOnWithTheAssistantsMessage) {
  const auto call = Parse(R"("messages":[{"role":"user","content":"a"},
      {"role":"assistant","content":[{"type":"text","text":"The best answer is ("}]}])");
  EXPECT_TRUE(PromptOf(call).continue_final_message);
  EXPECT_EQ(Json::parse(PromptOf(call).messages_json)[1]["content"], "The best answer is (");
}

TEST(MessagesBodyTest, OldThinkingIsLeftOut) {
  const auto kept = [](const std::string& edit) {
    std::string thought;
    const auto call = Parse(StrCat(R"("context_management":{"edits":[)", edit, R"(]},"messages":[
        {"role":"assistant","content":[{"type":"thinking","thinking":"1","signature":""}]},
        {"role":"user","content":"a"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"2","signature":""}]},
        {"role":"assistant","content":"b"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"3","signature":""}]},
        {"role":"user","content":"c"}])"));
    for (const Json& message : Json::parse(PromptOf(call).messages_json)) {
      thought += message.value("reasoning_content", "");
    }
    return thought;
  };
  const auto keep = [&](const std::string& value) {
    return kept(StrCat(R"({"type":"clear_thinking_20251015","keep":)", value, "}"));
  };
  EXPECT_EQ(keep(R"("all")"), "123");
  EXPECT_EQ(keep(R"({"type":"all"})"), "123");
  EXPECT_EQ(keep(R"({"type":"thinking_turns","value":2})"), "23");
  EXPECT_EQ(keep("null"), "3");
  EXPECT_EQ(kept(R"({"type":"compact_20260112"})"), "123");
}

TEST(MessagesBodyTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(FieldOf(""), "messages");
  EXPECT_EQ(FieldOf(R"("messages":[])"), "messages");
  const std::string user = R"("messages":[{"role":"user","content":"a"}])";
  const auto with = [&](const char* field) { return FieldOf(StrCat(user, ",", field)); };
  EXPECT_EQ(with(R"("n":2)"), "n");
  EXPECT_EQ(with(R"("max_tokens":0)"), "max_tokens");
  EXPECT_EQ(with(R"("stop_sequences":[1])"), "stop_sequences");
  EXPECT_EQ(with(R"("temperature":"hot")"), "temperature");
  EXPECT_EQ(with(R"("system":1)"), "system");
  EXPECT_EQ(with(R"("system":[{"type":"image"}])"), "system[0].type");
  EXPECT_EQ(with(R"("tools":[{"type":"web_search_20260209","name":"w"}])"), "tools[0].type");
  EXPECT_EQ(with(R"("tools":[{"input_schema":{}}])"), "tools[0].name");
  EXPECT_EQ(with(R"("tools":[{"name":"f"}])"), "tools[0].input_schema");
  EXPECT_EQ(with(R"("tools":[{"name":"f","input_schema":{},"defer_loading":true}])"),
            "tools[0].defer_loading");
  EXPECT_EQ(with(R"("tool_choice":{"type":"any"})"), "tool_choice");
  EXPECT_EQ(with(R"("tool_choice":{"type":"some"})"), "tool_choice.type");
  EXPECT_EQ(with(R"("thinking":{"type":"deep"})"), "thinking.type");
  EXPECT_EQ(with(R"("output_config":{"format":{}})"), "output_config.format.type");
  EXPECT_EQ(with(R"("mcp_servers":[{}])"), "mcp_servers");
  const auto blocks = [&](const char* role, const char* block) {
    return FieldOf(StrCat(R"("messages":[{"role":")", role, R"(","content":[)", block, "]}]"));
  };
  EXPECT_EQ(blocks("admin", ""), "messages[0].role");
  EXPECT_EQ(blocks("user", "1"), "messages[0].content[0]");
  EXPECT_EQ(blocks("user", R"({"type":"image","source":{}})"), "messages[0].content[0].type");
  EXPECT_EQ(blocks("user", R"({"type":"text"})"), "messages[0].content[0].text");
  EXPECT_EQ(blocks("user", R"({"type":"text","text":"a","b":1})"), "messages[0].content[0].b");
  EXPECT_EQ(blocks("user", R"({"type":"tool_use","id":"a","name":"f","input":{}})"),
            "messages[0].content[0].type");
  EXPECT_EQ(blocks("assistant", R"({"type":"tool_use","id":"a","name":"f","input":1})"),
            "messages[0].content[0].input");
  EXPECT_EQ(
      blocks("user", R"({"type":"tool_result","tool_use_id":"a","content":[{"type":"image"}]})"),
      "messages[0].content[0].content[0].type");
  // Nobody has said what it gave.
  EXPECT_EQ(blocks("assistant", R"({"type":"tool_use","id":"a","name":"f","input":{}})"),
            "messages");
  EXPECT_EQ(with(R"("tools":[{"type":"bash_20990101","name":"bash"}])"), "tools[0].type");
  EXPECT_EQ(with(R"("tools":[{"type":"bash_20250124","name":"b","input_schema":{}}])"),
            "tools[0].input_schema");
  EXPECT_EQ(with(R"("tools":[{"name":"f","input_schema":{},"max_characters":9}])"),
            "tools[0].max_characters");
  EXPECT_EQ(with(R"("betas":"a")"), "betas");
  EXPECT_EQ(with(R"("compaction":{"type":"summarize"})"), "compaction");
  EXPECT_EQ(with(R"("context_management":{"edits":[{"type":"forget_20260101"}]})"),
            "context_management.edits[0].type");
  EXPECT_EQ(with(R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":2}]})"),
            "context_management.edits[0].keep");
  EXPECT_EQ(with(R"("context_management":{"edits":[{"type":"clear_thinking_20251015",
                     "keep":{"type":"thinking_turns"}}]})"),
            "context_management.edits[0].keep.value");
  EXPECT_EQ(with(R"("context_management":{"edit":[]})"), "context_management.edit");
}

// As Anthropic's own API has it.
TEST(MessagesBodyTest, ToolsHaveNamesOfTheirOwn) {
  const auto tools = [](const std::vector<std::string>& names) {
    OrderedJson list = OrderedJson::array();
    for (const std::string& name : names) {
      list.push_back(OrderedJson{{"name", name}, {"input_schema", OrderedJson::object()}});
    }
    return Parse(StrCat(R"("messages":[{"role":"user","content":"a"}],"tools":)", list.dump()))
        .status();
  };
  EXPECT_TRUE(tools({"a", "mcp__files__Read-2", std::string(128, 'x')}).ok());
  for (const std::string& name :
       {std::string(), std::string("get weather"), std::string("a.b"), std::string("f\n"),
        std::string("w\xc3\xa4rme"), std::string(129, 'x')}) {
    const Status status = tools({"a", name});
    EXPECT_EQ(status.field(), "tools[1].name") << name;
    EXPECT_NE(status.message().find("must be 1 to 128 ASCII letters"), std::string::npos)
        << status.message();
    EXPECT_LT(status.message().size(), 250u);
  }
  const Status twice = tools({"a", "b", "a"});
  EXPECT_EQ(twice.field(), "tools[2].name");
  EXPECT_EQ(twice.message(),
            "tools[2].name is \"a\", as tools[0].name is; each tool needs a name of its own");
}

TEST(MessagesBodyTest, TheServerKnowsEveryFieldOfTheDocument) {
  const Json schemas = Json::parse(OpenApiDocument())["components"]["schemas"];
  for (const auto& [name, schema] : schemas["MessagesRequest"]["properties"].items()) {
    if (name == "messages") continue;
    const auto call =
        Parse(StrCat(R"("messages":[{"role":"user","content":"a"}],")", name, "\":null"));
    EXPECT_TRUE(call.ok()) << call.status().message();
  }
}

}  // namespace
}  // namespace sluice::server
