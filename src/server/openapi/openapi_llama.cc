// llama.cpp's paths in the OpenAPI document.
#include "base/str_cat.h"
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kCommonFields = R"json(,
        "n": {"enum": [1], "default": 1},
        "n_probs": {"type": "integer", "minimum": 0, "maximum": @logprobs_max@},
        "return_tokens": {"type": "boolean", "default": false},
        "repeat_last_n": {"type": "integer", "minimum": -1, "description": "0: no penalties; they look at the whole text whatever else it is"},
        @accepted_llama_request@,)json";

constexpr const char* kCompletionFields = R"json(
        "prompt": {"oneOf": [{"type": "string", "minLength": 1},
          {"type": "array", "minItems": 1, "items": {"type": "integer"}}]})json";

constexpr const char* kInfillFields = R"json(
        "input_prefix": {"type": "string"}, "input_suffix": {"type": "string"},
        "input_extra": {"type": "array", "items": {"type": "object", "required": ["text"],
          "additionalProperties": false, "properties": {"filename": {"type": "string"},
            "text": {"type": "string"}}}},
        "prompt": {"type": "string", "description": "What the middle begins with"})json";

constexpr const char* kLlamaSchemas = R"json(
    "LlamaAnswer": {"type": "object", "properties": {"index": {"type": "integer"},
      "content": {"type": "string"}, "tokens": {"type": "array", "items": {"type": "integer"}},
      "id_slot": {"type": "integer"}, "stop": {"type": "boolean"}, "model": {"type": "string"},
      "tokens_predicted": {"type": "integer"}, "tokens_evaluated": {"type": "integer"},
      "tokens_cached": {"type": "integer"}, "completion_probabilities": {"type": "array"},
      "has_new_line": {"type": "boolean"}, "truncated": {"type": "boolean"},
      "stop_type": {"enum": ["eos", "word", "limit"]}, "stopping_word": {"type": "string"},
      "timings": {"type": "object", "properties": {"draft_n": {"type": "integer"},
        "draft_n_accepted": {"type": "integer"}, "synthetic_acceptance": {"type": "number"},
        "verified_by_rejection": {"type": "boolean"}}}}})json";

std::string LlamaBody(const char* name, const std::string& fields) {
  return StrCat(",\n    \"", name,
                "\": {\"type\": \"object\", \"additionalProperties\": false, \"properties\": {",
                fields, "}}");
}

std::string LlamaPost(const char* path, const char* summary, const char* body) {
  return StrCat("\n    \"", path, "\": {\"post\": {\"summary\": \"", summary,
                R"(", @timed@"requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/)",
                body, R"("}}}}, "responses": {"200": {"description": "Done", "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/LlamaAnswer"}},
        "text/event-stream": {"schema": {"type": "string"}}}}, @errors@}}})");
}

std::string LlamaGet(const char* path, const char* summary) {
  return StrCat(",\n    \"", path, "\": {\"get\": {\"summary\": \"", summary,
                R"(", @of_model@"responses": {"200": {"description": "Done", "content": {
        "application/json": {"schema": {}}}}, @errors@}}})");
}

}  // namespace

OpenApiPart LlamaPart(const std::string& shared_fields) {
  return {StrCat(LlamaPost("/completion", "Goes on with a text, in llama.cpp's form",
                           "LlamaCompletionRequest"),
                 ",", LlamaPost("/completions", "The same", "LlamaCompletionRequest"), ",",
                 LlamaPost("/infill", "Fills a gap between two texts", "InfillRequest"),
                 LlamaGet("/props", "What the server serves"),
                 LlamaGet("/slots", "The places of running requests")),
          StrCat(kLlamaSchemas,
                 LlamaBody("LlamaCompletionRequest",
                           StrCat(shared_fields, kCommonFields, kCompletionFields)),
                 LlamaBody("InfillRequest", StrCat(shared_fields, kCommonFields, kInfillFields)))};
}

}  // namespace sluice::server
