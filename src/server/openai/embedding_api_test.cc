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

TEST(EmbeddingApi, CoheresForm) {
  const auto parse = [](const std::string& fields) {
    return ParseCohereEmbed("{" + fields + "}", kEmbedder);
  };
  const CohereEmbedCall call = parse(R"("texts": ["a", "b"], "model": "tiny",
      "input_type": "search_query", "embedding_types": ["float", "base64"], "truncate": "NONE",
      "output_dimension": 2, "priority": 1)")
                                   .value();
  ASSERT_EQ(call.requests.size(), 2u);
  EXPECT_TRUE(call.requests[0].embed);
  EXPECT_FALSE(call.requests[0].truncate);
  EXPECT_EQ(call.requests[0].dimensions, 2);
  Usage usage;
  usage.prompt_tokens = 9;
  EXPECT_EQ(Json::parse(CohereEmbedAnswer(call, {{1, -2}, {0.5, 0}}, usage, "the-id")),
            Json::parse(R"({"id": "the-id", "response_type": "embeddings_by_type",
                "embeddings": {"float": [[1, -2], [0.5, 0]],
                               "base64": ["AACAPwAAAMA=", "AAAAPwAAAAA="]},
                "texts": ["a", "b"], "meta": {"api_version": {"version": "2"},
                                              "billed_units": {"input_tokens": 9}}})"));
  const CohereEmbedCall parts = parse(R"("inputs": [{"content": [{"type": "text", "text": "a"},
                                                     {"type": "text", "text": "b"}]}])")
                                    .value();
  EXPECT_EQ(std::get<std::string>(parts.requests.at(0).prompt), "a\nb");
  EXPECT_TRUE(parts.requests[0].truncate);
  EXPECT_EQ(Json::parse(CohereEmbedAnswer(parts, {{1}}, {}, "x"))["embeddings"],
            Json::parse(R"({"float": [[1]]})"));
  const std::pair<const char*, const char*> cases[] = {
      {R"("model": "tiny")", "texts is missing"},
      {R"("texts": [])", "texts is empty"},
      {R"("texts": [5])", "texts has an item that is 5"},
      {R"("texts": ["a", ""])", "texts[1] is empty"},
      {R"("texts": ["a"], "inputs": [])", "send one of them"},
      {R"("texts": ["a"], "embedding_types": ["int8"])", "an item that is \"int8\""},
      {R"("texts": ["a"], "embedding_types": [])", "embedding_types is empty"},
      {R"("texts": ["a"], "truncate": "START")", "truncate is \"START\"; it must be NONE or END"},
      {R"("texts": ["a"], "input_type": "poem")", "input_type is \"poem\""},
      {R"("images": ["data:,a"])", "images is an array of 1 item, which is not supported"},
      {R"("inputs": [{"content": [{"type": "image_url", "image_url": {"url": "data:,a"}}]}])",
       "inputs[0].content[0].type is \"image_url\", which is not supported"}};
  for (const auto& [fields, message] : cases) {
    EXPECT_THAT(parse(fields).status().message(), HasSubstr(message)) << fields;
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
      {R"({"input": []})", "input is empty; it must be"},
      {R"({"input": ""})", "an input is empty"},
      {R"({"input": ["a", ""]})", "an input is empty"},
      {R"({"input": [{}]})", "input has an item that is an object"},
      {R"({"input": [100]})", "an integer from 0 to 99"},
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
