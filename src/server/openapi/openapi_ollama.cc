// Ollama's paths in the OpenAPI document.
#include "base/str_cat.h"
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kOllamaSchemas = R"json(
    "OllamaError": {"type": "object", "properties": {"error": {"type": "string"}}},
    "OllamaOptions": {"type": "object", "additionalProperties": false, "properties": {@sampling@
      "seed": {"type": "integer", "description": "-1: drawn"},
      "num_predict": {"type": "integer", "minimum": -2,
        "description": "-1 and -2: what is left of the context"},
      "stop": {"oneOf": [{"type": "string", "minLength": 1, "maxLength": @stop_bytes_max@},
        {"type": "array", "maxItems": @stops_max@,
          "items": {"type": "string", "minLength": 1, "maxLength": @stop_bytes_max@}}]},
      "repeat_last_n": {"type": "integer", "minimum": -1, "description": "0: no penalties; they look at the whole text whatever else it is"},
      @accepted_ollama_options@}},
    "OllamaMessage": {"type": "object", "required": ["role"], "additionalProperties": false,
      "properties": {"role": {"enum": ["system", "user", "assistant", "tool"]},
        "content": {"type": "string"}, "thinking": {"type": "string"},
        "tool_name": {"type": "string"}, "tool_call_id": {"type": "string"},
        "tool_calls": {"type": "array", "maxItems": @tool_calls_max@, "items": {"type": "object",
          "required": ["function"], "additionalProperties": false, "properties": {
            "id": {"type": "string"}, "type": {"enum": ["function"]},
            "function": {"type": "object", "required": ["name"], "additionalProperties": false,
              "properties": {"name": {"type": "string"}, "index": {"type": "integer"},
                "arguments": {"type": "object"}}}}}},
        @accepted_ollama_message@}},
    "OllamaAnswer": {"type": "object", "properties": {"model": {"type": "string"},
      "created_at": {"type": "string"}, "message": {"$ref": "#/components/schemas/OllamaMessage"},
      "response": {"type": "string"}, "logprobs": {"type": "array"}, "done": {"type": "boolean"},
      "done_reason": {"enum": ["stop", "length", "load", "unload"]},
      "total_duration": {"type": "integer", "description": "In nanoseconds, as all of them"},
      "load_duration": {"type": "integer"}, "prompt_eval_count": {"type": "integer"},
      "prompt_eval_duration": {"type": "integer"}, "eval_count": {"type": "integer"},
      "eval_duration": {"type": "integer"}, "synthetic_acceptance": {"type": "number"},
      "verified_by_rejection": {"type": "boolean"}}},
    "OllamaShowRequest": {"type": "object", "additionalProperties": false, "properties": {
      "model": {"type": "string"}, "name": {"type": "string"},
      "verbose": {"type": "boolean", "description": "Without effect"}}})json";

// Of both bodies that generate.
constexpr const char* kOllamaCommonFields = R"json(
      "model": {"type": "string", "description": "The served name, with or without :latest"},
      "stream": {"type": "boolean", "default": true},
      "options": {"$ref": "#/components/schemas/OllamaOptions"},
      "think": {"type": ["boolean", "string"],
        "description": "The template's enable_thinking, or reasoning_effort"},
      "logprobs": {"type": "boolean", "default": false},
      "top_logprobs": {"type": "integer", "minimum": 0, "maximum": @logprobs_max@},
      "format": {"oneOf": [{"enum": ["", "json", null]}, {"type": "object",
        "description": "A JSON schema that the answer is held to"}]},
      "keep_alive": {"type": ["string", "number", "null"],
        "description": "How long the model stays loaded when nobody asks for it, in seconds or as a duration (5m); below 0: for ever, 0: it is unloaded. Heeded where there are several models, from who may unload them"},
      @accepted_ollama_request@,)json";

constexpr const char* kOllamaChatFields = R"json(
      "messages": {"type": "array", "maxItems": @messages_max@,
        "items": {"$ref": "#/components/schemas/OllamaMessage"}},
      "tools": {"type": "array", "maxItems": @tools_max@, "items": {"type": "object"}})json";

constexpr const char* kGenerateFields = R"json(
      "prompt": {"type": "string"}, "system": {"type": "string"},
      "raw": {"type": "boolean", "default": false, "description": "The prompt is no question but a text to go on with"},
      "suffix": {"enum": ["", null]}, "template": {"enum": ["", null]},
      "context": {"enum": [[], null]}, "images": {"enum": [[], null]},
      "width": {"type": "null"}, "height": {"type": "null"}, "steps": {"type": "null"})json";

constexpr const char* kEmbedSchema = R"json(,
    "OllamaEmbedRequest": {"type": "object", "required": ["input"], "additionalProperties": false,
      "properties": {"model": {"type": "string"},
        "input": {"oneOf": [{"type": "string", "minLength": 1}, {"type": "array",
          "items": {"type": "string", "minLength": 1}}]},
        "truncate": {"type": "boolean", "default": true},
        "dimensions": {"type": "integer", "minimum": 1},
        "keep_alive": {"type": ["string", "number", "null"], "description": "As in OllamaChatRequest"},
        "options": {"type": "object", "description": "Without effect", "additionalProperties": false,
          "properties": {"repeat_last_n": {"type": "integer", "minimum": -1},
            @accepted_ollama_options@}}}},
    "OllamaEmbedOneRequest": {"type": "object", "additionalProperties": false,
      "properties": {"model": {"type": "string"},
        "prompt": {"type": "string", "description": "Without a text there is no vector"},
        "keep_alive": {"type": ["string", "number", "null"], "description": "As in OllamaChatRequest"},
        "options": {"type": "object", "description": "Without effect", "additionalProperties": false,
          "properties": {"repeat_last_n": {"type": "integer", "minimum": -1},
            @accepted_ollama_options@}}}})json";

std::string OllamaBody(const char* name, const char* fields) {
  return StrCat(",\n    \"", name,
                "\": {\"type\": \"object\", \"additionalProperties\": false, \"properties\": {",
                kOllamaCommonFields, fields, "}}");
}

std::string OllamaPost(const char* path, const char* summary, const char* body, const char* content,
                       const char* parameters = "@timed@") {
  return StrCat("\n    \"", path, "\": {\"post\": {\"summary\": \"", summary, "\", ", parameters,
                R"("requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/)",
                body, R"("}}}}, "responses": {"200": {"description": "Done", "content": {)",
                content, "}}, @ollama_errors@}}}");
}

std::string OllamaGet(const char* path, const char* summary) {
  return StrCat(",\n    \"", path, "\": {\"get\": {\"summary\": \"", summary,
                R"(", "responses": {"200": {"description": "Done", "content": {
        "application/json": {"schema": {"type": "object"}}}}, @ollama_errors@}}})");
}

}  // namespace

OpenApiPart OllamaPart() {
  constexpr const char* kAnswer =
      R"("application/json": {"schema": {"$ref": "#/components/schemas/OllamaAnswer"}},
        "application/x-ndjson": {"schema": {"$ref": "#/components/schemas/OllamaAnswer"}})";
  constexpr const char* kObject = R"("application/json": {"schema": {"type": "object"}})";
  return {
      StrCat(OllamaPost("/api/chat", "Answers a conversation, in Ollama's form",
                        "OllamaChatRequest", kAnswer),
             ",",
             OllamaPost("/api/generate", "Answers a prompt, or goes on with it",
                        "OllamaGenerateRequest", kAnswer),
             ",",
             OllamaPost("/api/embed", "Turns texts into vectors, by a model that embeds",
                        "OllamaEmbedRequest", kObject),
             ",",
             OllamaPost("/api/embeddings", "Turns one text into a vector, in Ollama's older form",
                        "OllamaEmbedOneRequest", kObject),
             ",", OllamaPost("/api/show", "What the model is", "OllamaShowRequest", kObject, ""),
             OllamaGet("/api/tags", "The models served, in Ollama's form"),
             OllamaGet("/api/ps", "The models loaded"),
             OllamaGet("/api/version", "The server's version")),
      StrCat(kOllamaSchemas, kEmbedSchema, OllamaBody("OllamaChatRequest", kOllamaChatFields),
             OllamaBody("OllamaGenerateRequest", kGenerateFields))};
}

}  // namespace sluice::server
