// OpenAI's /v1/responses: bodies, answers whole and streamed, and responses that are gone on from.
#include "server/openai/responses_api.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "server/openapi/openapi.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

const ModelFacts kModel{"tiny", 1000};

class ResponsesTest : public RoutesTest {
 protected:
  std::shared_ptr<FakeExchange> Post(const std::string& fields, const std::string& key = "") {
    return Send("POST", "/v1/responses", StrCat("{", fields, "}"), key);
  }
  // Answers the last request.
  void Answer(const std::string& text, FinishReason finish = FinishReason::kStop) {
    engine_.Emit(engine_.submitted.size() - 1, text, finish, true);
  }
  Json MessagesOfLast() const {
    return Json::parse(std::get<ChatPrompt>(engine_.submitted.back().request.prompt).messages_json);
  }
};

Result<ResponsesCall> Parse(const std::string& fields) {
  return ParseResponsesCall(StrCat("{", fields, "}"), kModel, [](const std::string&) {
    return std::shared_ptr<const StoredResponse>();
  });
}

std::string FieldOf(const std::string& fields) {
  const auto call = Parse(fields);
  EXPECT_FALSE(call.ok()) << fields;
  return call.status().field();
}

TEST_F(ResponsesTest, AnswersWhole) {
  auto exchange = Post(R"("input":"hi","instructions":"Be kind.","max_output_tokens":9,
      "temperature":0.5,"metadata":{"a":"b"})");
  ASSERT_EQ(engine_.submitted.size(), 1u) << exchange->reply.body;
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 9);
  EXPECT_EQ(
      MessagesOfLast(),
      Json::parse(R"([{"role":"system","content":"Be kind."},{"role":"user","content":"hi"}])"));
  Answer("Hello");
  ASSERT_EQ(exchange->reply.status, 200);
  const Json body = exchange->body();
  EXPECT_EQ(body["object"], "response");
  EXPECT_EQ(body["status"], "completed");
  EXPECT_EQ(body["id"].get<std::string>().size(), 5u + 32u);
  ASSERT_EQ(body["output"].size(), 1u);
  EXPECT_EQ(body["output"][0]["type"], "message");
  EXPECT_EQ(body["output"][0]["status"], "completed");
  EXPECT_EQ(body["output"][0]["content"][0]["type"], "output_text");
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(body["usage"]["total_tokens"], 5);
  EXPECT_EQ(body["instructions"], "Be kind.");
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["metadata"]["a"], "b");
}

TEST_F(ResponsesTest, ALimitLeavesItIncomplete) {
  auto exchange = Post(R"("input":"hi")");
  Answer("Hel", FinishReason::kLength);
  EXPECT_EQ(exchange->body()["status"], "incomplete");
  EXPECT_EQ(exchange->body()["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(exchange->body()["output"][0]["status"], "incomplete");
}

TEST_F(ResponsesTest, StreamsTypedEvents) {
  auto exchange = Post(R"("input":"hi","stream":true)");
  engine_.Emit(0, "Hel");
  Answer("lo");
  const auto events = exchange->named_events();
  std::vector<std::string> names;
  for (const auto& [name, json] : events) {
    EXPECT_EQ(json["type"], name);
    EXPECT_EQ(json["sequence_number"], names.size());
    names.push_back(name);
  }
  ASSERT_EQ(names,
            (std::vector<std::string>{"response.created", "response.in_progress",
                                      "response.output_item.added", "response.content_part.added",
                                      "response.output_text.delta", "response.output_text.delta",
                                      "response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"}));
  EXPECT_EQ(events[0].second["response"]["status"], "in_progress");
  EXPECT_EQ(events[5].second["delta"], "lo");
  EXPECT_EQ(events[5].second["item_id"], events[2].second["item"]["id"]);
  EXPECT_EQ(events[6].second["text"], "Hello");
  const Json& response = events.back().second["response"];
  EXPECT_EQ(response["output"][0], events[8].second["item"]);
  EXPECT_EQ(response["usage"]["output_tokens"], 2);
  EXPECT_TRUE(exchange->ended);
  const auto stored = Send("GET", StrCat("/v1/responses/", response["id"].get<std::string>()));
  EXPECT_EQ(stored->body(), response);
}

TEST_F(ResponsesTest, ThinkingAndCallsAreItems) {
  auto exchange = Post(R"("input":"hi","parallel_tool_calls":false,
      "tools":[{"type":"function","name":"weather"}])");
  EXPECT_TRUE(engine_.submitted.at(0).request.parsing.tools);
  EXPECT_TRUE(engine_.submitted[0].request.parsing.one_call);
  ThinkSpeakAndCall();
  const Json body = exchange->body();
  ASSERT_EQ(body["output"].size(), 4u) << body.dump();
  EXPECT_EQ(body["output"][0]["type"], "reasoning");
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "hm");
  EXPECT_EQ(body["output"][1]["content"][0]["text"], "I look.");
  EXPECT_EQ(body["output"][2]["type"], "function_call");
  EXPECT_EQ(body["output"][2]["call_id"], "call_1");
  EXPECT_EQ(body["output"][2]["arguments"], R"({"city":"Rome"})");
  EXPECT_EQ(body["output"][3]["name"], "time");
  // Gone on from, they are one message of the assistant.
  Post(StrCat(R"("input":[{"type":"function_call_output","call_id":"call_1","output":"sun"}],
      "previous_response_id":)",
              body["id"].dump()));
  EXPECT_EQ(MessagesOfLast(), Json::parse(R"([{"role":"user","content":"hi"},
      {"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[
        {"id":"call_1","type":"function",
         "function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}},
        {"id":"call_2","type":"function","function":{"name":"time","arguments":"now"}}]},
      {"role":"tool","tool_call_id":"call_1","content":"sun"}])"));
}

TEST_F(ResponsesTest, ThinkingAndCallsAreStreamedAsItems) {
  auto exchange = Post(R"("input":"hi","stream":true)");
  ThinkSpeakAndCall();
  std::vector<std::string> names;
  const auto events = exchange->named_events();
  for (const auto& [name, json] : events) names.push_back(name.substr(9));
  EXPECT_EQ(names, (std::vector<std::string>{"created",
                                             "in_progress",
                                             "output_item.added",
                                             "content_part.added",
                                             "reasoning_text.delta",
                                             "reasoning_text.delta",
                                             "reasoning_text.done",
                                             "content_part.done",
                                             "output_item.done",
                                             "output_item.added",
                                             "content_part.added",
                                             "output_text.delta",
                                             "output_text.done",
                                             "content_part.done",
                                             "output_item.done",
                                             "output_item.added",
                                             "function_call_arguments.delta",
                                             "function_call_arguments.delta",
                                             "function_call_arguments.done",
                                             "output_item.done",
                                             "output_item.added",
                                             "function_call_arguments.delta",
                                             "function_call_arguments.done",
                                             "output_item.done",
                                             "completed"}));
  const Json& output = events.back().second["response"]["output"];
  ASSERT_EQ(output.size(), 4u);
  EXPECT_EQ(output[2], events[19].second["item"]);
}

TEST_F(ResponsesTest, AStreamThatFailsSaysSo) {
  auto exchange = Post(R"("input":"hi","stream":true)");
  engine_.Emit(0, "Hel");
  TextDelta delta;
  delta.finish = FinishReason::kError;
  delta.last = true;
  delta.error = Status(StatusCode::kOutOfMemory, "no memory is left");
  engine_.EmitDelta(0, std::move(delta));
  const auto events = exchange->named_events();
  EXPECT_EQ(events.back().first, "response.failed");
  EXPECT_EQ(events.back().second["response"]["error"]["message"], "no memory is left");
}

TEST_F(ResponsesTest, GoesOnFromAStoredResponse) {
  const auto first = Post(R"("input":"My name is Ann.","instructions":"Be kind.")");
  Answer("Hello Ann");
  const std::string id = first->body()["id"];
  const auto second = Post(StrCat(R"("input":"Who am I?","previous_response_id":")", id, "\""));
  // The instructions were of the first call alone.
  EXPECT_EQ(MessagesOfLast(), Json::parse(R"([{"role":"user","content":"My name is Ann."},
      {"role":"assistant","content":"Hello Ann"},{"role":"user","content":"Who am I?"}])"));
  Answer("Ann");
  EXPECT_EQ(second->body()["previous_response_id"], id);
  Post(StrCat(R"("input":"Sure?","previous_response_id":)", second->body()["id"].dump()));
  EXPECT_EQ(MessagesOfLast().size(), 5u);
}

TEST_F(ResponsesTest, WhatIsNotToBeStoredIsNot) {
  const auto exchange = Post(R"("input":"hi","store":false)");
  Answer("Hello");
  const std::string id = exchange->body()["id"];
  EXPECT_EQ(Send("GET", "/v1/responses/" + id)->reply.status, 404);
}

TEST_F(ResponsesTest, AResponseBelongsToItsKey) {
  UseKeys("one\ntwo\n");
  const auto exchange = Post(R"("input":"hi")", "Bearer one");
  Answer("Hello");
  const std::string path = StrCat("/v1/responses/", exchange->body()["id"].get<std::string>());
  const std::string more =
      StrCat(R"("input":"a","previous_response_id":)", exchange->body()["id"].dump());
  EXPECT_EQ(Send("GET", path, "", "Bearer two")->reply.status, 404);
  EXPECT_EQ(Send("DELETE", path, "", "Bearer two")->reply.status, 404);
  EXPECT_EQ(Post(more, "Bearer two")->reply.status, 404);
  EXPECT_EQ(exchange_->param(), "previous_response_id");
  EXPECT_EQ(Send("GET", path, "", "Bearer one")->reply.status, 200);
  EXPECT_TRUE(Send("DELETE", path, "", "Bearer one")->body()["deleted"]);
  EXPECT_EQ(Send("GET", path, "", "Bearer one")->reply.status, 404);
  const auto wrong = Send("PUT", path, "", "Bearer one");
  EXPECT_EQ(wrong->reply.status, 405);
  EXPECT_EQ(wrong->reply.headers.at(0),
            (std::pair<std::string, std::string>{"Allow", "GET, DELETE, POST"}));
}

TEST(ResponsesBodyTest, ItemsBecomeAConversation) {
  const auto call = Parse(R"("input":[
      {"role":"developer","content":"d"},
      {"type":"message","role":"user","content":[{"type":"input_text","text":"Weather?"}]},
      {"type":"reasoning","id":"rs_1","summary":[],
       "content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":null},
      {"type":"message","id":"msg_1","role":"assistant","status":"completed",
       "content":[{"type":"output_text","text":"I look.","annotations":[],"logprobs":[]}]},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"weather","arguments":"{}"},
      {"type":"function_call","call_id":"c2","name":"weather","arguments":"{\"a\":1}"},
      {"type":"function_call_output","call_id":"c1","output":"sun"},
      {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"rain"}]},
      {"role":"assistant","content":"Both."},
      {"role":"user","content":"Thanks"}],
      "tools":[{"type":"function","name":"weather","parameters":{"type":"object"},"strict":true}],
      "reasoning":{"effort":"low","summary":"auto"},"include":["reasoning.encrypted_content"],
      "parallel_tool_calls":true,"text":{"format":{"type":"text"},"verbosity":"low"})");
  ASSERT_TRUE(call.ok()) << call.status().message();
  const auto& prompt = std::get<ChatPrompt>(call->call.requests.at(0).prompt);
  EXPECT_EQ(Json::parse(prompt.messages_json), Json::parse(R"([
      {"role":"developer","content":"d"},
      {"role":"user","content":"Weather?"},
      {"role":"assistant","content":"I look.","reasoning_content":"hm","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"weather","arguments":"{}"}},
        {"id":"c2","type":"function","function":{"name":"weather","arguments":"{\"a\":1}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"sun"},
      {"role":"tool","tool_call_id":"c2","content":"rain"},
      {"role":"assistant","content":"Both."},
      {"role":"user","content":"Thanks"}])"));
  EXPECT_EQ(Json::parse(prompt.tools_json), Json::parse(R"([{"type":"function","function":
      {"name":"weather","parameters":{"type":"object"},"strict":true}}])"));
  EXPECT_EQ(Json::parse(prompt.template_kwargs_json),
            Json::parse(R"({"reasoning_effort":"low","verbosity":"low"})"));
}

TEST(ResponsesBodyTest, AnAnswerMayBeHeldToASchema) {
  const auto call = Parse(R"("input":"a","text":{"format":{"type":"json_schema","name":"n",
      "strict":true,"schema":{"type":"array"}}})");
  ASSERT_TRUE(call.ok()) << call.status().message();
  const Grammar& grammar = call->call.requests.at(0).grammar;
  EXPECT_EQ(grammar.kind, Grammar::Kind::kJsonSchema);
  EXPECT_EQ(grammar.text, R"({"type":"array"})");
  EXPECT_FALSE(grammar.open);
  EXPECT_EQ(call->shown["text"]["format"]["name"], "n");
  const auto object = Parse(R"("input":"a","text":{"format":{"type":"json_object"}})");
  EXPECT_EQ(object->call.requests.at(0).grammar.text, R"({"type":"object"})");
  EXPECT_EQ(
      Parse(R"("input":"a","text":{"format":{"type":"text"}})")->call.requests[0].grammar.kind,
      Grammar::Kind::kNone);
}

TEST(ResponsesBodyTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(FieldOf(""), "input");
  EXPECT_EQ(FieldOf(R"("input":[])"), "input");
  EXPECT_EQ(FieldOf(R"("input":1)"), "input");
  const auto with = [](const char* field) { return FieldOf(StrCat(R"("input":"a",)", field)); };
  EXPECT_EQ(with(R"("messages":[])"), "messages");
  EXPECT_EQ(with(R"("max_output_tokens":0)"), "max_output_tokens");
  EXPECT_EQ(with(R"("previous_response_id":"resp_none")"), "previous_response_id");
  EXPECT_EQ(with(R"("background":true,"store":false)"), "background");
  EXPECT_EQ(with(R"("background":"yes")"), "background");
  EXPECT_EQ(with(R"("truncation":"auto")"), "truncation");
  EXPECT_EQ(with(R"("conversation":"c")"), "conversation");
  EXPECT_EQ(with(R"("include":["file_search_call.results"])"), "include");
  EXPECT_EQ(with(R"("tools":[{"type":"web_search"}])"), "tools[0].type");
  EXPECT_EQ(with(R"("tools":[{"type":"function"}])"), "tools[0].name");
  EXPECT_EQ(with(R"("tool_choice":"required")"), "tool_choice");
  EXPECT_EQ(with(R"("text":{"format":{"type":"xml"}})"), "text.format.type");
  EXPECT_EQ(with(R"("text":{"format":{"type":"json_schema"}})"), "text.format.schema");
  EXPECT_EQ(with(R"("reasoning":{"depth":1})"), "reasoning.depth");
  EXPECT_EQ(with(R"("instructions":[])"), "instructions");
  const auto item = [](const char* text) { return FieldOf(StrCat(R"("input":[)", text, "]")); };
  EXPECT_EQ(item("1"), "input[0]");
  EXPECT_EQ(item(R"({"type":"item_reference","id":"a"})"), "input[0].type");
  EXPECT_EQ(item(R"({"role":"tool","content":"a"})"), "input[0].role");
  EXPECT_EQ(item(R"({"role":"user"})"), "input[0].content");
  EXPECT_EQ(item(R"({"role":"user","content":[{"type":"input_image"}]})"),
            "input[0].content[0].type");
  EXPECT_EQ(item(R"({"type":"function_call","name":"f","arguments":"{}"})"), "input[0].call_id");
  EXPECT_EQ(item(R"({"type":"function_call_output","call_id":"c"})"), "input[0].output");
}

TEST(ResponsesBodyTest, TheServerKnowsEveryFieldOfTheDocument) {
  const Json schemas = Json::parse(OpenApiDocument())["components"]["schemas"];
  for (const auto& [name, schema] : schemas["ResponsesRequest"]["properties"].items()) {
    if (name == "input") continue;
    const auto call = Parse(StrCat(R"("input":"a",")", name, "\":null"));
    EXPECT_TRUE(call.ok()) << call.status().message();
  }
}

}  // namespace
}  // namespace sluice::server
