// What the OpenAPI document says of keys, headers, query parameters and answers.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/str_cat.h"
#include "server/llama/llama_api.h"
#include "server/openapi/openapi.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

class OpenApiTest : public RoutesTest {
 protected:
  // Whether the operation has the parameter, of its own or of the shared ones.
  bool Takes(const std::string& path, const std::string& method, const std::string& name) const {
    const Json& operation = document_.at("paths").at(path).at(method);
    if (!operation.contains("parameters")) return false;
    return std::any_of(operation["parameters"].begin(), operation["parameters"].end(),
                       [&](const Json& parameter) { return Resolved(parameter)["name"] == name; });
  }
  const Json& Resolved(const Json& value) const {
    if (!value.contains("$ref")) return value;
    return document_.at(Json::json_pointer(value["$ref"].get<std::string>().substr(1)));
  }
  void CheckReferences(const Json& value) const {
    if (value.is_object() && value.contains("$ref") && value["$ref"].is_string()) {
      EXPECT_NO_THROW(Resolved(value)) << value["$ref"];
    }
    if (!value.is_structured()) return;
    for (const Json& item : value) CheckReferences(item);
  }

  const Json document_ = Json::parse(OpenApiDocument());
};

TEST_F(OpenApiTest, WhatItRefersToIsThere) { CheckReferences(document_); }

TEST_F(OpenApiTest, PathsThatTakeNoKeySaySo) {
  UseKeys("secret\n");
  int open = 0;
  for (const auto& [path, item] : document_["paths"].items()) {
    if (!item.contains("get")) continue;
    const bool says = item["get"].contains("security") && item["get"]["security"].empty();
    EXPECT_EQ(Send("GET", path)->reply.status != 401, says) << path;
    open += says ? 1 : 0;
  }
  EXPECT_GT(open, 0);
  for (const Json& way : document_["security"]) {
    for (const auto& [scheme, scopes] : way.items()) {
      EXPECT_TRUE(document_["components"]["securitySchemes"].contains(scheme)) << scheme;
    }
  }
}

TEST_F(OpenApiTest, WhatGeneratesTakesATimeout) {
  for (const char* path : {"/v1/chat/completions",
                           "/v1/completions",
                           "/v1/embeddings",
                           "/v1/rerank",
                           "/v2/rerank",
                           "/v2/embed",
                           "/rerank",
                           "/reranking",
                           "/v1/reranking",
                           "/v1/score",
                           "/v1/classify",
                           "/v1/messages",
                           "/v1/responses",
                           "/v1/decisions",
                           "/api/chat",
                           "/api/generate",
                           "/api/embed",
                           "/api/embeddings",
                           "/completion",
                           "/completions",
                           "/infill"}) {
    EXPECT_TRUE(Takes(path, "post", "X-Request-Timeout")) << path;
  }
  EXPECT_FALSE(Takes("/tokenize", "post", "X-Request-Timeout"));
  EXPECT_TRUE(Takes("/v1/streams", "get", "Last-Event-ID"));
}

TEST_F(OpenApiTest, WhatTellsOfOneModelTakesItsName) {
  for (const char* path : {"/props", "/slots", "/tokenizer_info"}) {
    EXPECT_TRUE(Takes(path, "get", "model")) << path;
    EXPECT_EQ(Send("GET", StrCat(path, "?model=other"))->reply.status, 404) << path;
  }
}

TEST_F(OpenApiTest, LlamaCompletionsHaveOneAnswer) {
  const Json& n = document_["components"]["schemas"]["LlamaCompletionRequest"]["properties"]["n"];
  EXPECT_EQ(n["enum"], Json::array({1}));
  const ModelFacts model{"tiny", 1000};
  EXPECT_TRUE(ParseLlamaCompletion(R"({"prompt":"a","n":1})", model).ok());
  EXPECT_FALSE(ParseLlamaCompletion(R"({"prompt":"a","n":2})", model).ok());
}

TEST_F(OpenApiTest, KeepAliveIsNoFieldWithoutEffect) {
  for (const char* schema : {"OllamaChatRequest", "OllamaGenerateRequest"}) {
    const Json& field = document_["components"]["schemas"][schema]["properties"]["keep_alive"];
    EXPECT_NE(field["description"], "Without effect") << schema;
  }
}

TEST_F(OpenApiTest, EveryReasonToFinishIsThere) {
  const Json& schemas = document_["components"]["schemas"];
  for (const char* schema : {"ChatChoice", "CompletionChoice"}) {
    const Json& reasons = schemas[schema]["properties"]["finish_reason"]["enum"];
    for (const FinishReason reason :
         {FinishReason::kStop, FinishReason::kLength, FinishReason::kTimeout}) {
      EXPECT_NE(std::find(reasons.begin(), reasons.end(), Json(Name(reason))), reasons.end())
          << schema << " " << Name(reason);
    }
  }
}

}  // namespace
}  // namespace sluice::server
