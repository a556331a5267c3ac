// Ollama's paths: bodies, answers as lines and whole, what is told of the model.
#include "server/ollama/ollama_api.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "server/openapi/openapi.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

const ModelFacts kModel{"tiny", 1000};

class OllamaTest : public RoutesTest {
 protected:
  void End(FinishReason finish) {
    TextDelta delta;
    delta.finish = finish;
    delta.last = true;
    delta.usage.prompt_tokens = 3;
    delta.usage.completion_tokens = 2;
    delta.usage.queue_ms = 1;
    delta.usage.prefill_ms = 2;
    delta.usage.decode_ms = 0.5;
    engine_.EmitDelta(engine_.submitted.size() - 1, std::move(delta));
  }
  // The lines of the last stream.
  std::vector<Json> Lines() const {
    std::vector<Json> lines;
    const std::string& text = exchange_->streamed;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      lines.push_back(Json::parse(text.substr(at, end - at)));
      at = end + 1;
    }
    return lines;
  }
};

std::string FieldOf(const Result<ApiCall>& call) {
  EXPECT_FALSE(call.ok());
  return call.status().field();
}

TEST_F(OllamaTest, ChatStreamsLinesUnlessTold) {
  auto exchange = Send("POST", "/api/chat",
                       R"({"model":"tiny:latest","messages":[{"role":"user","content":"hi"}],
                           "options":{"num_predict":5,"temperature":0.5,"num_ctx":4096}})");
  ASSERT_EQ(engine_.submitted.size(), 1u) << exchange->reply.body;
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 5);
  EXPECT_EQ(engine_.submitted[0].request.sampling.temperature, 0.5);
  engine_.Emit(0, "Hel");
  engine_.Emit(0, "lo");
  End(FinishReason::kStop);
  EXPECT_EQ(exchange->stream_type, "application/x-ndjson");
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u) << exchange->streamed;
  EXPECT_EQ(lines[0]["model"], "tiny");
  EXPECT_EQ(lines[0]["message"], Json::parse(R"({"role":"assistant","content":"Hel"})"));
  EXPECT_EQ(lines[0]["done"], false);
  EXPECT_EQ(lines[2]["message"]["content"], "");
  EXPECT_EQ(lines[2]["done"], true);
  EXPECT_EQ(lines[2]["done_reason"], "stop");
  EXPECT_EQ(lines[2]["prompt_eval_count"], 3);
  EXPECT_EQ(lines[2]["eval_count"], 2);
  EXPECT_EQ(lines[2]["total_duration"], 3'500'000);
  EXPECT_EQ(lines[2]["prompt_eval_duration"], 2'000'000);
  EXPECT_EQ(lines[2]["eval_duration"], 500'000);
}

TEST_F(OllamaTest, PenaltiesThatLookAtNoTokenAreOff) {
  Send("POST", "/api/generate",
       R"({"prompt":"hi","options":{"repeat_penalty":1.3,"repeat_last_n":0}})");
  Send("POST", "/api/generate",
       R"({"prompt":"hi","options":{"repeat_penalty":1.3,"repeat_last_n":33}})");
  ASSERT_EQ(engine_.submitted.size(), 2u) << exchange_->reply.body;
  EXPECT_EQ(engine_.submitted[0].request.sampling.repetition_penalty, 1);
  EXPECT_EQ(engine_.submitted[1].request.sampling.repetition_penalty, 1.3);
  // Clients send the same options where nothing is drawn.
  Send("POST", "/api/embed", R"({"input":"hi","options":{"repeat_last_n":64}})");
  EXPECT_EQ(engine_.submitted.size(), 3u) << exchange_->reply.body;
  Send("POST", "/api/embeddings", R"({"prompt":"hi","options":{"repeat_last_n":64}})");
  EXPECT_EQ(engine_.submitted.size(), 4u) << exchange_->reply.body;
}

TEST_F(OllamaTest, AStreamWithoutTextIsOneLine) {
  auto exchange = Send("POST", "/api/generate", R"({"prompt":"hi"})");
  End(FinishReason::kStop);
  EXPECT_EQ(exchange->stream_type, "application/x-ndjson");
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(OllamaTest, GenerateAnswersWhole) {
  auto exchange =
      Send("POST", "/api/generate", R"({"prompt":"hi","system":"Be kind.","stream":false})");
  EXPECT_EQ(Json::parse(std::get<ChatPrompt>(engine_.submitted.at(0).request.prompt).messages_json),
            Json::parse(R"([{"role":"system","content":"Be kind."},
                            {"role":"user","content":"hi"}])"));
  engine_.Emit(0, "Hello");
  End(FinishReason::kLength);
  EXPECT_EQ(exchange->body()["response"], "Hello");
  EXPECT_EQ(exchange->body()["done_reason"], "length");
  EXPECT_FALSE(exchange->body().contains("message"));
}

TEST_F(OllamaTest, CallsComeWholeAndThinkingApart) {
  auto exchange = Send("POST", "/api/chat",
                       R"({"messages":[{"role":"user","content":"hi"}],
                           "tools":[{"type":"function","function":{"name":"weather"}}]})");
  EXPECT_TRUE(engine_.submitted.at(0).request.parsing.tools);
  ThinkSpeakAndCall();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 4u) << exchange->streamed;
  EXPECT_EQ(lines[0]["message"]["thinking"], "h");
  EXPECT_EQ(lines[1]["message"]["content"], "I look.");
  const Json& calls = lines[2]["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["function"]["arguments"], Json::parse(R"({"city":"Rome"})"));
  EXPECT_EQ(calls[1]["function"]["arguments"], Json::parse(R"({"arguments":"now"})"));
  EXPECT_EQ(lines[3]["done_reason"], "stop");
}

TEST_F(OllamaTest, ARawPromptIsGoneOnWith) {
  Send("POST", "/api/generate", R"({"prompt":"Once","raw":true})");
  EXPECT_EQ(std::get<std::string>(engine_.submitted.at(0).request.prompt), "Once");
}

TEST_F(OllamaTest, ACallThatAsksNothingFindsTheModelLoaded) {
  auto exchange = Send("POST", "/api/generate", R"({"model":"tiny","keep_alive":-1})");
  EXPECT_EQ(exchange->body()["done_reason"], "load");
  EXPECT_EQ(exchange->body()["response"], "");
  EXPECT_EQ(
      Send("POST", "/api/chat", R"({"model":"tiny","messages":[]})")->body()["message"]["content"],
      "");
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST_F(OllamaTest, TellsOfTheModel) {
  const Json tag = Send("GET", "/api/tags")->body()["models"][0];
  EXPECT_EQ(tag["name"], "tiny");
  EXPECT_EQ(tag["details"]["family"], "llama");
  EXPECT_EQ(tag["digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(Send("GET", "/api/ps")->body()["models"][0]["context_length"], 64);
  EXPECT_TRUE(Send("GET", "/api/version")->body().contains("version"));
  const Json shown = Send("POST", "/api/show", R"({"model":"tiny"})")->body();
  EXPECT_EQ(shown["model_info"]["general.architecture"], "llama");
  EXPECT_EQ(shown["model_info"]["llama.context_length"], 64);
  EXPECT_EQ(shown["capabilities"], Json::array({"completion"}));
}

TEST_F(OllamaTest, ShowsTemplateParametersAndWhatTheModelCan) {
  engine_.tokenizer.chat_template = "{% if tools %}{{ tools }}{% endif %}";
  engine_.tool_parser = "hermes";
  engine_.reasoning_parser = "think";
  engine_.sampling_defaults.temperature = 0.5;
  engine_.sampling_defaults.repetition_penalty = 1.25;
  const Json shown = Send("POST", "/api/show", R"({"name":"tiny","verbose":true})")->body();
  EXPECT_EQ(shown["template"], "{% if tools %}{{ tools }}{% endif %}");
  EXPECT_EQ(shown["parameters"], StrCat("temperature", std::string(20, ' '), "0.5\nrepeat_penalty",
                                        std::string(17, ' '), "1.25"));
  EXPECT_EQ(shown["capabilities"], Json::array({"completion", "tools", "thinking"}));
  EXPECT_EQ(shown["details"]["family"], "llama");
  EXPECT_TRUE(shown["modified_at"].is_string());
  engine_.embedding_size = 8;
  const Json embeds = Send("POST", "/api/show", R"({"model":"tiny:latest"})")->body();
  EXPECT_EQ(embeds["capabilities"], Json::array({"embedding"}));
  EXPECT_EQ(embeds["model_info"]["llama.embedding_length"], 8);
}

TEST_F(OllamaTest, AnAnswerGoesOnWithTheAssistantsMessage) {
  const auto open = [&](const char* last) {
    engine_.submitted.clear();
    Send("POST", "/api/chat",
         StrCat(R"({"messages":[{"role":"user","content":"hi"},)", last, "]}"));
    const Request& request = engine_.submitted.at(0).request;
    return std::get<ChatPrompt>(request.prompt).continue_final_message;
  };
  EXPECT_TRUE(open(R"({"role":"assistant","content":"It is"})"));
  EXPECT_FALSE(open(R"({"role":"user","content":"a"})"));
  EXPECT_FALSE(
      open(R"({"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]})"));
}

TEST_F(OllamaTest, ErrorsAreASentence) {
  auto exchange = Send("POST", "/api/show", R"({"model":"other"})");
  EXPECT_EQ(exchange->reply.status, 404);
  EXPECT_TRUE(exchange->body()["error"].is_string());
  exchange = Send("POST", "/api/chat", R"({"messages":[{"role":"user","content":"hi"}]})");
  engine_.Emit(0, "Hel");
  TextDelta delta;
  delta.finish = FinishReason::kError;
  delta.last = true;
  delta.error = Status(StatusCode::kOutOfMemory, "no memory is left");
  engine_.EmitDelta(0, std::move(delta));
  EXPECT_EQ(Lines().back(), Json::parse(R"({"error":"no memory is left"})"));
}

TEST(OllamaTimeTest, IsWrittenAsTheyDo) {
  EXPECT_EQ(Rfc3339(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(Rfc3339(1'764'079'200), "2025-11-25T14:00:00Z");
}

TEST(OllamaBodyTest, MessagesBecomeAConversation) {
  const auto call = ParseOllamaChat(R"({"messages":[
      {"role":"user","content":"Weather?"},
      {"role":"assistant","content":"","thinking":"hm",
       "tool_calls":[{"function":{"name":"weather","arguments":{"city":"Rome"}}}]},
      {"role":"tool","tool_name":"weather","content":"sun"}],
      "tools":[{"type":"function","function":{"name":"weather"}}],"think":false})",
                                    kModel);
  ASSERT_TRUE(call.ok()) << call.status().message();
  const auto& prompt = std::get<ChatPrompt>(call->requests.at(0).prompt);
  EXPECT_EQ(Json::parse(prompt.messages_json), Json::parse(R"([
      {"role":"user","content":"Weather?"},
      {"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"type":"function",
       "function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},
      {"role":"tool","name":"weather","content":"sun"}])"));
  EXPECT_FALSE(Json::parse(prompt.template_kwargs_json)["enable_thinking"]);
  EXPECT_EQ(Json::parse(prompt.tools_json)[0]["function"]["name"], "weather");
}

TEST(OllamaBodyTest, AnAnswerMayBeHeldToASchema) {
  for (const auto& [format, grammar] : std::vector<std::pair<std::string, std::string>>{
           {R"("")", ""},
           {R"("json")", R"({"type":"object"})"},
           {R"({"type":"array"})", R"({"type":"array"})"}}) {
    const auto call =
        ParseOllamaGenerate(StrCat(R"({"prompt":"a","format":)", format, "}"), kModel);
    ASSERT_TRUE(call.ok()) << call.status().message();
    EXPECT_EQ(call->requests.at(0).grammar.text, grammar);
  }
}

TEST(OllamaBodyTest, WhatIsWrongIsNamed) {
  const auto chat = [](const char* field) {
    return FieldOf(ParseOllamaChat(
        StrCat(R"({"messages":[{"role":"user","content":"a"}],)", field, "}"), kModel));
  };
  EXPECT_EQ(chat(R"("max_tokens":1)"), "max_tokens");
  EXPECT_EQ(chat(R"("format":"xml")"), "format");
  EXPECT_EQ(chat(R"("options":{"temperature":"hot"})"), "options.temperature");
  EXPECT_EQ(chat(R"("options":{"num_predict":-3})"), "options.num_predict");
  EXPECT_EQ(chat(R"("options":{"mirostat":2})"), "options.mirostat");
  EXPECT_EQ(chat(R"("options":{"surprise":2})"), "options.surprise");
  EXPECT_EQ(chat(R"("stream":"no")"), "stream");
  EXPECT_EQ(chat(R"("think":1)"), "think");
  EXPECT_EQ(chat(R"("keep_alive":[])"), "keep_alive");
  EXPECT_EQ(chat(R"("tools":[{"function":{}}])"), "tools[0].function");
  EXPECT_EQ(chat(R"("model":"other")"), "model");
  const auto message = [](const char* text) {
    return FieldOf(ParseOllamaChat(StrCat(R"({"messages":[)", text, "]}"), kModel));
  };
  EXPECT_EQ(message(R"({"role":"admin"})"), "messages[0].role");
  EXPECT_EQ(message(R"({"role":"user","images":["aGk="]})"), "messages[0].images");
  EXPECT_EQ(message(R"({"role":"user","content":[]})"), "messages[0].content");
  EXPECT_EQ(message(R"({"role":"assistant","tool_calls":[{"function":{"name":""}}]})"),
            "messages[0].tool_calls[0].function.name");
  const auto generate = [](const char* field) {
    return FieldOf(ParseOllamaGenerate(StrCat(R"({"prompt":"a",)", field, "}"), kModel));
  };
  EXPECT_EQ(generate(R"("context":[1])"), "context");
  EXPECT_EQ(generate(R"("suffix":"b")"), "suffix");
  EXPECT_EQ(generate(R"("template":"b")"), "template");
  EXPECT_EQ(generate(R"("raw":true,"system":"b")"), "system");
  EXPECT_EQ(generate(R"("messages":[])"), "messages");
}

TEST(OllamaBodyTest, TheServerKnowsEveryFieldOfTheDocument) {
  const Json schemas = Json::parse(OpenApiDocument())["components"]["schemas"];
  for (const bool chat : {true, false}) {
    const Json& schema = schemas[chat ? "OllamaChatRequest" : "OllamaGenerateRequest"];
    for (const auto& [name, unused] : schema["properties"].items()) {
      const std::string body = StrCat("{\"", name, "\":null}");
      const auto call = chat ? ParseOllamaChat(body, kModel) : ParseOllamaGenerate(body, kModel);
      EXPECT_TRUE(call.ok()) << call.status().message();
    }
  }
}

}  // namespace
}  // namespace sluice::server
