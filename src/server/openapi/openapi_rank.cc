// Ranks, scores and classes of texts in the OpenAPI document.
#include <string>

#include "base/str_cat.h"
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

std::string Path(const char* path, const char* summary, const char* request, const char* answer,
                 const char* errors = "@errors@") {
  return StrCat("\n    \"", path, "\": {\"post\": {\"summary\": \"", summary, R"json(",
      @timed@
      "requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/)json",
                request, R"json("}}}},
      "responses": {"200": {"description": "Done", "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/)json",
                answer, R"json("}}}}, )json", errors, "}}}");
}

constexpr const char* kRankSchemas = R"json(
    "RerankRequest": {"type": "object", "required": ["query", "documents"], "additionalProperties": false,
      "properties": {"model": {"type": "string"},
        "query": {"oneOf": [{"type": "string", "minLength": 1},
          {"type": "object", "required": ["text"], "additionalProperties": false,
            "properties": {"text": {"type": "string"}, "id": {"type": "string"}}}]},
        "documents": {"$ref": "#/components/schemas/Texts"},
        "top_n": {"type": "integer", "minimum": 1, "description": "The best; default: all"},
        "return_documents": {"type": "boolean", "default": true},
        "return_embeddings": {"enum": [false, null]},
        "truncate": {"type": "boolean", "default": false}, "truncate_prompt_tokens": {"enum": [-1]},
        "user": {"type": "string", "description": "Without effect"}}},
    "Ranking": {"type": "object", "properties": {"id": {"type": "string"}, "object": {"enum": ["list"]}, "model": {"type": "string"},
      "usage": {"type": "object"}, "results": {"type": "array", "items": {"type": "object",
        "properties": {"index": {"type": "integer"}, "relevance_score": {"type": "number"},
          "document": {"type": "object", "properties": {"text": {"type": "string"}}}}}}}},
    "ScoreRequest": {"type": "object", "required": ["text_1", "text_2"], "additionalProperties": false,
      "properties": {"model": {"type": "string"},
        "text_1": {"$ref": "#/components/schemas/Texts"}, "text_2": {"$ref": "#/components/schemas/Texts"},
        "truncate": {"type": "boolean", "default": false}, "truncate_prompt_tokens": {"enum": [-1]},
        "user": {"type": "string", "description": "Without effect"}}},
    "ClassifyRequest": {"type": "object", "required": ["input"], "additionalProperties": false,
      "properties": {"model": {"type": "string"}, "input": {"$ref": "#/components/schemas/Texts"},
        "truncate": {"type": "boolean", "default": false}, "truncate_prompt_tokens": {"enum": [-1]},
        "user": {"type": "string", "description": "Without effect"}}},
    "Classes": {"type": "object", "properties": {"id": {"type": "string"}, "object": {"enum": ["list"]},
      "created": {"type": "integer"}, "model": {"type": "string"}, "usage": {"type": "object"},
      "data": {"type": "array", "items": {"type": "object", "properties": {
        "index": {"type": "integer"}, "label": {"type": "string"}, "num_classes": {"type": "integer"},
        "probs": {"type": "array", "items": {"type": "number"}}}}}}},
    "Scores": {"type": "object", "properties": {"id": {"type": "string"}, "object": {"enum": ["list"]},
      "created": {"type": "integer"}, "model": {"type": "string"}, "usage": {"type": "object"},
      "data": {"type": "array", "items": {"type": "object", "properties": {
        "index": {"type": "integer"}, "object": {"enum": ["score"]}, "score": {"type": "number"}}}}}},
    "CohereEmbedRequest": {"type": "object", "additionalProperties": false, "properties": {
        "model": {"type": "string"},
        "texts": {"type": "array", "minItems": 1, "maxItems": @embedding_inputs_max@,
          "items": {"type": "string", "minLength": 1}},
        "inputs": {"type": "array", "minItems": 1, "maxItems": @embedding_inputs_max@,
          "description": "Instead of texts; the parts of one are joined by line ends",
          "items": {"type": "object", "required": ["content"], "additionalProperties": false,
            "properties": {"content": {"type": "array", "maxItems": 64, "items": {
              "type": "object", "required": ["type", "text"], "additionalProperties": false,
              "properties": {"type": {"enum": ["text"]}, "text": {"type": "string"}}}}}}},
        "input_type": {"enum": ["search_document", "search_query", "classification", "clustering",
          "image", null], "description": "Without effect"},
        "embedding_types": {"type": "array", "minItems": 1, "maxItems": 8, "default": ["float"],
          "items": {"enum": ["float", "base64"]}},
        "output_dimension": {"type": "integer", "minimum": 1},
        "truncate": {"enum": ["NONE", "END", null], "default": "END",
          "description": "END: of a text that is too long the end is left out"},
        "images": {"enum": [null]}, "max_tokens": {"enum": [null]},
        "priority": {"type": "integer", "minimum": 0, "maximum": 999, "description": "Without effect"}}},
    "CohereEmbeddings": {"type": "object", "properties": {"id": {"type": "string"},
      "response_type": {"enum": ["embeddings_by_type"]},
      "embeddings": {"type": "object", "properties": {
        "float": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "base64": {"type": "array", "items": {"type": "string"}}}},
      "texts": {"type": "array", "items": {"type": "string"}},
      "meta": {"type": "object", "properties": {"api_version": {"type": "object"},
        "billed_units": {"type": "object", "properties": {"input_tokens": {"type": "integer"}}}}}}},
    "CohereError": {"type": "object", "properties": {"message": {"type": "string"}}},
    "CohereRerankRequest": {"type": "object", "required": ["query", "documents"],
      "additionalProperties": false, "properties": {"model": {"type": "string"},
        "query": {"type": "string", "minLength": 1},
        "documents": {"type": "array", "minItems": 1, "maxItems": @documents_max@,
          "items": {"type": "string", "minLength": 1}},
        "top_n": {"type": "integer", "minimum": 1, "description": "The best; default: all"},
        "max_tokens_per_doc": {"type": "integer", "minimum": 1, "default": 4096,
          "description": "Of a longer document the end is left out, and what the model does not take"},
        "priority": {"type": "integer", "minimum": 0, "maximum": 999, "description": "Without effect"}}},
    "CohereRanking": {"type": "object", "properties": {"id": {"type": "string"},
      "results": {"type": "array", "items": {"type": "object", "properties": {
        "index": {"type": "integer"}, "relevance_score": {"type": "number"}}}},
      "meta": {"type": "object", "properties": {"api_version": {"type": "object"},
        "billed_units": {"type": "object", "properties": {"search_units": {"type": "integer",
          "description": "One for each 100 documents"}}},
        "tokens": {"type": "object", "properties": {"input_tokens": {"type": "integer"}}}}}}})json";

}  // namespace

OpenApiPart RankPart() {
  constexpr const char* kOrders = "Orders documents by how near they are to a query";
  return {
      StrCat(Path("/v1/rerank", kOrders, "RerankRequest", "Ranking"), ",",
             Path("/rerank", kOrders, "RerankRequest", "Ranking"), ",",
             Path("/v1/reranking", kOrders, "RerankRequest", "Ranking"), ",",
             Path("/reranking", kOrders, "RerankRequest", "Ranking"), ",",
             Path("/v2/embed", "Turns texts into vectors, in Cohere's form", "CohereEmbedRequest",
                  "CohereEmbeddings", "@cohere_errors@"),
             ",",
             Path("/v2/rerank", "The same in Cohere's form", "CohereRerankRequest", "CohereRanking",
                  "@cohere_errors@"),
             ",", Path("/v1/score", "How near texts are to others", "ScoreRequest", "Scores"), ",",
             Path("/v1/classify", "Gives each text a label, by a model that classifies",
                  "ClassifyRequest", "Classes")),
      kRankSchemas};
}

}  // namespace sluice::server
