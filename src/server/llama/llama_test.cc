// llama.cpp's paths: bodies, answers whole and streamed, gaps, what is told of the server.
#include "server/llama/llama_api.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/str_cat.h"
#include "server/openapi/openapi.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

const ModelFacts kModel{"tiny", 1000};

class LlamaTest : public RoutesTest {
 protected:
  void End(FinishReason finish, const std::string& match = "") {
    TextDelta delta;
    delta.finish = finish;
    delta.stop_match = match;
    delta.last = true;
    delta.usage.prompt_tokens = 5;
    delta.usage.cached_tokens = 1;
    delta.usage.completion_tokens = 2;
    delta.usage.prefill_ms = 8;
    delta.usage.decode_ms = 4;
    engine_.EmitDelta(engine_.submitted.size() - 1, std::move(delta));
  }
  void EmitToken(int32_t id, const std::string& text) {
    TextDelta delta;
    delta.text = text;
    delta.tokens.emplace_back().id = id;
    delta.tokens.back().bytes = text;
    delta.tokens.back().logprob = -0.5;
    delta.tokens.back().top.push_back({.id = 9, .logprob = -0.25, .bytes = "c"});
    engine_.EmitDelta(engine_.submitted.size() - 1, std::move(delta));
  }
};

std::string FieldOf(const Result<ApiCall>& call) {
  EXPECT_FALSE(call.ok());
  return call.status().field();
}

TEST_F(LlamaTest, PenaltiesThatLookAtNoTokenAreOff) {
  const auto sampling = [](const std::string& span) {
    const auto call =
        ParseLlamaCompletion(StrCat(R"({"prompt":"a","repeat_penalty":1.3,"presence_penalty":0.5,)",
                                    R"("frequency_penalty":0.25,"repeat_last_n":)", span, "}"),
                             kModel);
    EXPECT_TRUE(call.ok()) << call.status().message();
    return call.ok() ? call->requests[0].sampling : Sampling();
  };
  for (const char* span : {"64", "-1", "null"}) {
    EXPECT_EQ(sampling(span).repetition_penalty, 1.3) << span;
    EXPECT_EQ(sampling(span).presence_penalty, 0.5) << span;
    EXPECT_EQ(sampling(span).frequency_penalty, 0.25) << span;
  }
  // Also those that the model itself would have.
  EXPECT_EQ(sampling("0").repetition_penalty, 1);
  EXPECT_EQ(sampling("0").presence_penalty, 0);
  EXPECT_EQ(sampling("0").frequency_penalty, 0);
  EXPECT_EQ(FieldOf(ParseLlamaCompletion(R"({"prompt":"a","repeat_last_n":-2})", kModel)),
            "repeat_last_n");
}

TEST_F(LlamaTest, CompletionAnswersWhole) {
  auto exchange = Send("POST", "/completion",
                       R"({"prompt":"Once","n_predict":7,"stop":["END"],"return_tokens":true,
                           "n_probs":1,"repeat_last_n":64,"cache_prompt":true})");
  ASSERT_EQ(engine_.submitted.size(), 1u) << exchange->reply.body;
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 7);
  EXPECT_EQ(std::get<std::string>(engine_.submitted[0].request.prompt), "Once");
  EmitToken(4, " a\n");
  EmitToken(5, "b");
  End(FinishReason::kStop, "END");
  const Json body = exchange->body();
  EXPECT_EQ(body["content"], " a\nb");
  EXPECT_EQ(body["tokens"], (Json{4, 5}));
  EXPECT_EQ(body["stop"], true);
  EXPECT_EQ(body["stop_type"], "word");
  EXPECT_EQ(body["stopping_word"], "END");
  EXPECT_EQ(body["has_new_line"], true);
  EXPECT_EQ(body["tokens_predicted"], 2);
  EXPECT_EQ(body["tokens_evaluated"], 5);
  EXPECT_EQ(body["completion_probabilities"][1]["id"], 5);
  EXPECT_EQ(body["completion_probabilities"][1]["logprob"], -0.5);
  EXPECT_EQ(body["completion_probabilities"][1]["top_logprobs"][0]["id"], 9);
  EXPECT_EQ(body["completion_probabilities"][1]["top_logprobs"][0]["token"], "c");
  EXPECT_EQ(body["timings"]["cache_n"], 1);
  EXPECT_EQ(body["timings"]["prompt_n"], 4);
  EXPECT_EQ(body["timings"]["prompt_per_token_ms"], 2);
  EXPECT_EQ(body["timings"]["predicted_per_second"], 500);
}

// They are all that its answers have.
TEST(LlamaIds, AModelWithoutATokenizerAlwaysGivesThem) {
  const ModelFacts ids_alone{"tiny", 1000, {}, /*ids_alone=*/true};
  for (const char* asked : {"", R"(,"return_tokens":false)"}) {
    const std::string body = StrCat(R"({"prompt":[1,2])", asked, "}");
    EXPECT_TRUE(ParseLlamaCompletion(body, ids_alone)->shows_ids) << asked;
    EXPECT_FALSE(ParseLlamaCompletion(body, kModel)->shows_ids) << asked;
  }
}

TEST_F(LlamaTest, CompletionStreams) {
  auto exchange = Send("POST", "/completions", R"({"prompt":[1,2],"stream":true})");
  EmitToken(4, "a");
  End(FinishReason::kLength);
  const auto events = exchange->events();
  ASSERT_EQ(events.size(), 2u) << exchange->streamed;
  EXPECT_EQ(Json::parse(events[0])["content"], "a");
  EXPECT_EQ(Json::parse(events[0])["stop"], false);
  EXPECT_EQ(Json::parse(events[1])["content"], "");
  EXPECT_EQ(Json::parse(events[1])["stop_type"], "limit");
  EXPECT_TRUE(exchange->ended);
}

TEST_F(LlamaTest, TellsOfTheServer) {
  engine_.tokenizer.chat_template = "{{ messages }}";
  engine_.tokenizer.eos_token = "</s>";
  const Json props = Send("GET", "/props")->body();
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 64);
  EXPECT_EQ(props["model_alias"], "tiny");
  EXPECT_EQ(props["chat_template"], "{{ messages }}");
  EXPECT_EQ(props["eos_token"], "</s>");
  EXPECT_TRUE(Send("GET", "/slots")->body().is_array());
}

// A vocabulary that has the tokens of gaps beside a token per byte.
class GapEngine : public FakeEngine {
 public:
  Result<std::vector<int32_t>> Tokenize(const std::string& text, bool add_special,
                                        bool parse_special,
                                        const std::atomic<bool>*) const override {
    const std::vector<std::string> special = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                                              "<|file_sep|>"};
    const auto found = std::find(special.begin(), special.end(), text);
    if (parse_special && found != special.end()) {
      return std::vector<int32_t>{static_cast<int32_t>(300 + (found - special.begin()))};
    }
    std::vector<int32_t> ids(text.begin(), text.end());
    if (add_special) ids.insert(ids.begin(), 1);
    return ids;
  }
};

TEST(InfillTest, TheTextsStandBetweenTheModelsTokens) {
  GapEngine engine;
  const std::atomic<bool> gone = false;
  Request request;
  ASSERT_TRUE(FillPrompt(engine, {"a", "b", {}, "c"}, gone, &request).ok());
  EXPECT_EQ(std::get<std::vector<int32_t>>(request.prompt),
            (std::vector<int32_t>{1, 300, 'a', 301, 'b', 302, 'c'}));
  EXPECT_EQ(request.stop_token_ids, (std::vector<int32_t>{300, 301, 302, 303}));
  ASSERT_TRUE(FillPrompt(engine, {"a", "", {{"f", "x"}}, ""}, gone, &request).ok());
  EXPECT_EQ(std::get<std::vector<int32_t>>(request.prompt),
            (std::vector<int32_t>{1, 303, 'f', '\n', 'x', 303, 300, 'a', 301, 302}));
  // A client's text is no token.
  ASSERT_TRUE(FillPrompt(engine, {"<|fim_middle|>", "b", {}, ""}, gone, &request).ok());
  EXPECT_EQ(std::get<std::vector<int32_t>>(request.prompt).size(), 1u + 1 + 14 + 1 + 1 + 1);
}

TEST(InfillTest, TextsOfMoreThanAMebibyteAreRefused) {
  const std::string half(512 * 1024, 'a');
  const auto of = [&](const std::string& more) {
    Infill texts;
    return ParseInfill(
               StrCat(R"({"input_prefix":")", half, R"(","input_extra":[{"filename":"f","text":")",
                      half.substr(1), R"("}],"input_suffix":")", more, R"("})"),
               kModel, &texts)
        .status();
  };
  EXPECT_TRUE(of("").ok()) << of("").message();
  // It is no limit of the context, of which kTooLarge tells.
  EXPECT_EQ(of("b").code(), StatusCode::kInvalidArgument);
  EXPECT_NE(of("b").message().find("1048577 bytes"), std::string::npos) << of("b").message();
}

TEST_F(LlamaTest, AModelWithoutTokensForGapsSaysSo) {
  auto exchange = Send("POST", "/infill", R"({"input_prefix":"a","input_suffix":"b"})");
  EXPECT_EQ(exchange->reply.status, 501);
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST(LlamaBodyTest, WhatIsWrongIsNamed) {
  const auto completion = [](const char* fields) {
    return FieldOf(ParseLlamaCompletion(StrCat("{", fields, "}"), kModel));
  };
  EXPECT_EQ(completion(""), "prompt");
  EXPECT_EQ(completion(R"("prompt":"")"), "prompt");
  EXPECT_EQ(completion(R"("prompt":[1000])"), "prompt");
  EXPECT_EQ(completion(R"("prompt":["a"])"), "prompt");
  EXPECT_EQ(completion(R"("prompt":"a","n_probs":21)"), "n_probs");
  EXPECT_EQ(completion(R"("prompt":"a","n":2)"), "n");
  EXPECT_EQ(completion(R"("prompt":"a","samplers":["top_k"])"), "samplers");
  EXPECT_EQ(completion(R"("prompt":"a","surprise":1)"), "surprise");
  const auto infill = [](const char* fields) {
    Infill texts;
    return FieldOf(ParseInfill(StrCat("{", fields, "}"), kModel, &texts));
  };
  EXPECT_EQ(infill(""), "input_prefix");
  EXPECT_EQ(infill(R"("input_prefix":1)"), "input_prefix");
  EXPECT_EQ(infill(R"("input_prefix":"a","input_extra":[{}])"), "input_extra[0].text");
  EXPECT_EQ(infill(R"("input_prefix":"a","input_extra":[{"text":"b","more":1}])"),
            "input_extra[0].more");
}

TEST(LlamaBodyTest, TheServerKnowsEveryFieldOfTheDocument) {
  const Json schemas = Json::parse(OpenApiDocument())["components"]["schemas"];
  for (const auto& [name, unused] : schemas["LlamaCompletionRequest"]["properties"].items()) {
    if (name == "prompt" || name == "stream_options") continue;
    const auto call = ParseLlamaCompletion(StrCat(R"({"prompt":"a",")", name, "\":null}"), kModel);
    EXPECT_TRUE(call.ok()) << call.status().message();
  }
  for (const auto& [name, unused] : schemas["InfillRequest"]["properties"].items()) {
    if (name == "input_prefix" || name == "stream_options") continue;
    Infill texts;
    const auto call =
        ParseInfill(StrCat(R"({"input_prefix":"a",")", name, "\":null}"), kModel, &texts);
    EXPECT_TRUE(call.ok()) << call.status().message();
  }
}

}  // namespace
}  // namespace sluice::server
