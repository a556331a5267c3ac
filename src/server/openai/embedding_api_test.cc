#include "server/openai/embedding_api.h"

#include <gmock/gmock.h>

#include "base/json.h"

namespace sluice::server {
namespace {

using ::testing::HasSubstr;

const ModelFacts kEmbedder = {"tiny", 100, {}};

Result<EmbeddingCall> ParseEmbedding(const std::string& body) {
  return ParseEmbeddingCall(body, kEmbedder);
}

TEST(EmbeddingApi, InputsInFourForms) {
  const auto texts = [](const std::string& input) {
    return ParseEmbedding("{\"input\": " + input + "}").value().requests;
  };
  EXPECT_EQ(std::get<std::string>(texts("\"a\"").at(0).prompt), "a");
  EXPECT_EQ(std::get<std::string>(texts("[\"a\", \"b\"]").at(1).prompt), "b");
  EXPECT_EQ(std::get<std::vector<int32_t>>(texts("[7, 8]").at(0).prompt),
            (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(std::get<std::vector<int32_t>>(texts("[[7], [8, 9]]").at(1).prompt),
            (std::vector<int32_t>{8, 9}));
  for (const Request& request : texts("[\"a\", \"b\"]")) {
    EXPECT_TRUE(request.embed);
    EXPECT_FALSE(request.truncate);
    EXPECT_FALSE(request.dimensions.has_value());
  }
}

TEST(EmbeddingApi, Options) {
  const EmbeddingCall call =
      ParseEmbedding(
          R"({"input": "a", "model": "tiny", "dimensions": 12, "encoding_format": "base64",
                "truncate_prompt_tokens": -1, "user": "me"})")
          .value();
  EXPECT_TRUE(call.base64);
  EXPECT_EQ(call.requests[0].dimensions, 12);
  EXPECT_TRUE(call.requests[0].truncate);
  EXPECT_TRUE(ParseEmbedding(R"({"input": "a", "truncate": true})").value().requests[0].truncate);
}

TEST(EmbeddingApi, WhatIsWrongIsNamed) {
  const std::pair<std::string, std::string> cases[] = {
      {"{}", "input is missing"},
      {R"({"input": []})", "input is missing, empty"},
      {R"({"input": ""})", "an input is empty"},
      {R"({"input": ["a", ""]})", "an input is empty"},
      {R"({"input": [{}]})", "input has an item that is an object"},
      {R"({"input": [100]})", "integers from 0 to 99"},
      {R"({"input": "a", "encoding_format": "int8"})", "it must be float or base64"},
      {R"({"input": "a", "dimensions": 0})", "dimensions"},
      {R"({"input": "a", "stream": true})", "stream"},
      {R"({"input": "a", "model": "other"})", "other"}};
  for (const auto& [body, message] : cases)
    EXPECT_THAT(ParseEmbedding(body).status().message(), HasSubstr(message)) << body;
  std::string many = "{\"input\": [\"a\"";
  for (size_t i = 0; i < kEmbeddingInputsMax; ++i) many += ",\"a\"";
  EXPECT_THAT(ParseEmbedding(many + "]}").status().message(), HasSubstr("input has 2049 texts"));
}

TEST(EmbeddingApi, FloatsReadAsTheyWereAndBase64HasTheirBytes) {
  EmbeddingCall call;
  call.model = "a \"model\"";
  const std::vector<std::vector<float>> vectors = {{0.1f, -3.5f, 1e-20f}, {1.0f, 2.0f, 3.0f}};
  Usage usage;
  usage.prompt_tokens = 9;
  Json answer = ParseJson(EmbeddingAnswer(call, vectors, usage), "answer").value();
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["model"], "a \"model\"");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 9);
  EXPECT_EQ(answer["usage"]["total_tokens"], 9);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer["data"][i]["index"], i);
    for (size_t j = 0; j < 3; ++j)
      EXPECT_EQ(answer["data"][i]["embedding"][j].get<float>(), vectors[i][j]);
  }
  call.base64 = true;
  answer =
      ParseJson(EmbeddingAnswer(call, {{1.0f}, {1.0f, -2.0f}, {0.0f, 0.0f, 1.5f}}, usage), "answer")
          .value();
  // As Python's base64 and struct give them.
  EXPECT_EQ(answer["data"][0]["embedding"], "AACAPw==");
  EXPECT_EQ(answer["data"][1]["embedding"], "AACAPwAAAMA=");
  EXPECT_EQ(answer["data"][2]["embedding"], "AAAAAAAAAAAAAMA/");
}

}  // namespace
}  // namespace sluice::server
