#include <map>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "base/str_cat.h"
#include "server/openai/decisions_api.h"
#include "server/openai/embedding_api.h"
#include "server/openai/rank_api.h"
#include "server/openapi/openapi.h"
#include "server/openapi/openapi_parts.h"
#include "server/shared/accepted_fields.h"
#include "server/shared/api_call.h"
#include "server/shared/resumable_streams.h"

namespace sluice::server {
namespace {

// The fields of a body that chat and plain completions share.
constexpr const char* kSharedFields = R"json(
        "model": {"type": "string", "description": "The served name; may be left out"},
        "use_beam_search": {"type": "boolean", "default": false,
          "description": "The n best answers of a beam search, as transformers' generate finds them"},
        "beam_width": {"oneOf": [{"type": "integer", "minimum": 1, "maximum": @beams_max@},
          {"type": "array", "minItems": 1, "maxItems": @beam_widths_max@,
            "items": {"type": "integer", "minimum": 1, "maximum": @beams_max@}}],
          "description": "Beams of the search, or those behind each token, of which the last number goes on; default: n"},
        "length_penalty": {"type": "number", "minimum": -@length_penalty_max@, "maximum": @length_penalty_max@, "default": 1,
          "description": "An answer's score is its log-prob over its length to this power"},
        "early_stopping": {"enum": [true, false, "never"], "default": false,
          "description": "true: a search ends once as many answers as beams have; false: once the best beam scores no better than them; never: once it cannot at any length"},
        "min_tokens": {"type": "integer", "minimum": 0, "default": 0},
        "min_new_tokens": {"type": "integer", "minimum": 0, "description": "min_tokens"},
        "seed": {"type": "integer", "description": "-1: drawn and returned"},
        "logit_bias": {"type": "object", "maxProperties": @biases_max@,
          "additionalProperties": {"type": "number", "minimum": @bias_low@, "maximum": @bias_high@}},
        "stop": {"oneOf": [{"type": "string", "minLength": 1, "maxLength": @stop_bytes_max@},
          {"type": "array", "maxItems": @stops_max@,
            "items": {"type": "string", "minLength": 1, "maxLength": @stop_bytes_max@}}]},
        "stop_token_ids": {"type": "array", "maxItems": @stop_ids_max@, "items": {"type": "integer"}},
        "include_stop_str_in_output": {"type": "boolean", "default": false},
        "skip_special_tokens": {"type": "boolean", "default": true},
        "ignore_eos": {"type": "boolean", "default": false},
        "stream": {"type": "boolean", "default": false},
        "stream_options": {"type": "object", "additionalProperties": false, "properties": {
          "include_usage": {"type": "boolean", "default": false},
          @accepted_stream_options@}},
        "prompt_logprobs": {"type": "integer", "minimum": 0, "maximum": @logprobs_max@,
          "description": "Refused where the answer would pass @prompt_logprobs_mib@ MiB"},
        "priority": {"type": "integer", "minimum": -@priority_max@, "maximum": @priority_max@, "default": 0},
        "resume_seconds": {"type": "integer", "minimum": 1, "maximum": @resume_seconds_max@,
          "description": "Of a stream: it goes on so long without its client, which may come back to GET /v1/streams"},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": @timeout_seconds_max@,
          "description": "Seconds, after which the answer ends with what has come, or with a 504 where nothing has"},
        "cache_salt": {"type": "string", "maxLength": @salt_bytes_max@,
          "description": "Prefixes are shared only among equal salts of one API key"},
        "response_format": {"type": "object", "additionalProperties": false, "required": ["type"],
          "properties": {"type": {"enum": ["text", "json_object", "json_schema", "structural_tag"]},
            "json_schema": {"type": "object", "additionalProperties": false, "required": ["schema"],
              "properties": {"schema": {"$ref": "#/components/schemas/JsonSchema"},
                "name": {"type": "string"}, "description": {"type": "string"},
                "strict": {"type": "boolean", "default": true,
                  "description": "false: objects may hold properties that are permitted without being named"}}},
            "schema": {"$ref": "#/components/schemas/JsonSchema"},
            "format": {"type": "object"}, "structures": {"type": "array"}, "triggers": {"type": "array"}}},
        "guided_json": {"$ref": "#/components/schemas/JsonSchema"},
        "guided_regex": {"$ref": "#/components/schemas/Regex"},
        "guided_grammar": {"$ref": "#/components/schemas/Rules"},
        "json_schema": {"$ref": "#/components/schemas/JsonSchema"},
        "regex": {"$ref": "#/components/schemas/Regex"},
        "ebnf": {"$ref": "#/components/schemas/Rules"},
        "grammar": {"$ref": "#/components/schemas/Rules"},
        "structural_tag": {"$ref": "#/components/schemas/StructuralTag"},
        "return_token_ids": {"type": ["boolean", "null"], "default": false,
          "description": "Choices have token_ids, those of the answer, and once prompt_token_ids"},
        "return_tokens_as_token_ids": {"type": ["boolean", "null"], "default": false,
          "description": "Log-probs name a token by its id: token_id:7"},
        @accepted_request@,
        "guided_choice": {"$ref": "#/components/schemas/Choice"},
        "structured_outputs": {"type": "object", "additionalProperties": false, "properties": {
          "choice": {"$ref": "#/components/schemas/Choice"},
          "json": {"$ref": "#/components/schemas/JsonSchema"},
          "json_object": {"type": "boolean"},
          "regex": {"$ref": "#/components/schemas/Regex"},
          "grammar": {"$ref": "#/components/schemas/Rules"},
          "structural_tag": {"$ref": "#/components/schemas/StructuralTag"},
          "disable_any_whitespace": {"type": "boolean", "description": "Without effect"},
          "disable_additional_properties": {"enum": [false]},
          "whitespace_pattern": {"type": "null"}}})json";

// A server without keys asks for none.
constexpr const char* kKeysAndParameters = R"json("security": [{}, {"key": []}, {"x-api-key": []}],
  "components": {
  "securitySchemes": {"key": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"}},
  "parameters": {
    "RequestTimeout": {"name": "X-Request-Timeout", "in": "header", "schema": {"type": "number",
      "exclusiveMinimum": 0, "maximum": @timeout_seconds_max@}, "description": "The field timeout of every API; the field wins"},
    "OfModel": {"name": "model", "in": "query", "schema": {"type": "string"},
      "description": "Of several models; may be left out"}})json";

// How many answers a prompt gets, of chat and plain completions.
constexpr const char* kChoices = R"json(,
        "n": {"type": "integer", "minimum": 1, "maximum": @choices_max@, "default": 1})json";

constexpr const char* kChatFields = R"json(
        "messages": {"type": "array", "minItems": 1, "maxItems": @messages_max@,
          "items": {"$ref": "#/components/schemas/Message"}},
        "tools": {"type": "array", "maxItems": @tools_max@, "items": {"$ref": "#/components/schemas/Tool"}},
        "tool_choice": {"$ref": "#/components/schemas/ToolChoice"},
        "parallel_tool_calls": {"type": "boolean", "description": "false: an answer ends behind its first call"},
        "functions": {"type": "null"}, "function_call": {"type": "null"},
        "chat_template_kwargs": {"type": "object",
          "description": "Further variables of the template, up to @kwargs_kib@ KiB"},
        "include_reasoning": {"type": "boolean", "description": "false: reasoning_content is left out"},
        "reasoning_effort": {"type": "string",
          "description": "A variable of the template; none: enable_thinking is false, too"},
        "verbosity": {"type": "string", "description": "A variable of the template"},
        "enable_thinking": {"type": "boolean", "description": "A variable of the template"},
        "think": {"type": ["boolean", "string"], "description": "enable_thinking, or reasoning_effort"},
        "reasoning": {"type": "object", "additionalProperties": false, "properties": {
          "effort": {"type": "string", "description": "reasoning_effort"},
          "enabled": {"type": "boolean", "description": "enable_thinking"},
          "exclude": {"type": "boolean", "description": "true: as include_reasoning false"},
          "summary": {"type": "string", "description": "Without effect"}}},
        "thinking": {"type": "object", "required": ["type"], "additionalProperties": false, "properties": {
          "type": {"enum": ["enabled", "disabled", "adaptive", "auto"],
            "description": "enable_thinking; the last two leave it to the template"},
          "budget_tokens": {"type": "integer", "minimum": 0, "description": "thinking_budget"},
          @accepted_thinking@}},
        "thinking_budget": {"type": "integer", "minimum": -1,
          "description": "Tokens, behind which the thinking is ended; -1: no limit"},
        "thinking_token_budget": {"type": "integer", "minimum": -1, "description": "thinking_budget"},
        "thinking_budget_tokens": {"type": "integer", "minimum": -1, "description": "thinking_budget"},
        "add_generation_prompt": {"type": "boolean", "default": true},
        "continue_final_message": {"type": "boolean", "default": false,
          "description": "The answer goes on with the last message, which is the assistant's"})json";

constexpr const char* kSchemas = R"json(
    "ToolChoice": {"oneOf": [{"enum": ["none", "auto", "required"]},
      {"type": "object", "required": ["type"], "additionalProperties": false, "properties": {
        "type": {"enum": ["function"]}, "name": {"type": "string", "minLength": 1},
        "function": {"type": "object", "required": ["name"], "additionalProperties": false,
          "properties": {"name": {"type": "string", "minLength": 1}}}}}],
      "description": "required, or a function's name: the answer is calls, by a grammar"},
    "Choice": {"type": "array", "minItems": 1, "maxItems": @choice_texts_max@, "uniqueItems": true,
      "items": {"type": "string", "minLength": 1},
      "description": "The answer is one of these texts, of @choice_kib@ KiB together. It wins over ignore_eos, min_tokens and no_repeat_ngram_size"},
    "JsonSchema": {"type": ["object", "boolean", "string"],
      "description": "The answer is JSON of this schema, without whitespace. It wins over what choice does"},
    "Regex": {"type": "string", "description": "The whole answer matches it"},
    "Rules": {"type": "string", "description": "EBNF or GBNF; the first rule is root"},
    "StructuralTag": {"type": ["object", "string"], "description": "As XGrammar defines it"},
    "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
      "required": ["message", "type", "param", "code"], "properties": {
        "message": {"type": "string"}, "type": {"type": "string"},
        "param": {"type": ["string", "null"], "description": "The field at fault"},
        "code": {"type": ["string", "null"]}}}}},
    "TextPart": {"type": "object", "required": ["type", "text"], "additionalProperties": false,
      "properties": {"type": {"enum": ["text"]}, "text": {"type": "string"}, @accepted_part@}},
    "FunctionCall": {"type": "object", "required": ["name"], "additionalProperties": false,
      "properties": {"name": {"type": "string"}, "arguments": {"type": ["string", "object"]}}},
    "Message": {"type": "object", "required": ["role"], "additionalProperties": false, "properties": {
      "role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]},
      "content": {"oneOf": [{"type": ["string", "null"]},
        {"type": "array", "maxItems": @parts_max@, "items": {"$ref": "#/components/schemas/TextPart"}}]},
      "name": {"type": "string"}, "tool_call_id": {"type": "string"},
      "tool_calls": {"type": "array", "maxItems": @tool_calls_max@, "items": {"type": "object",
        "required": ["function"], "additionalProperties": false, "properties": {
          "id": {"type": "string"}, "index": {"type": "integer"}, "type": {"enum": ["function"]},
          "function": {"$ref": "#/components/schemas/FunctionCall"}}}},
      "reasoning_content": {"type": "string"}, "reasoning": {"type": "string"},
      "thinking": {"type": "string"},
      "prefix": {"type": "boolean", "default": false,
        "description": "Of the last message, the assistant's: continue_final_message"},
      "partial": {"type": "boolean", "default": false, "description": "prefix"}, @accepted_message@}},
    "Tool": {"type": "object", "required": ["type", "function"], "additionalProperties": false,
      "properties": {"type": {"enum": ["function"]}, "function": {"type": "object",
        "required": ["name"], "additionalProperties": false, "properties": {
          "name": {"type": "string", "minLength": 1}, "description": {"type": "string"},
          "parameters": {"type": "object"}, "strict": {"type": "boolean"}}}, @accepted_tool@}},
    "Usage": {"type": "object", "properties": {"prompt_tokens": {"type": "integer"},
      "completion_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"},
      "prompt_tokens_details": {"type": "object", "properties": {
        "cached_tokens": {"type": "integer"}}},
      "completion_tokens_details": {"type": "object", "properties": {
        "accepted_prediction_tokens": {"type": "integer"},
        "rejected_prediction_tokens": {"type": "integer"},
        "synthetic_acceptance": {"type": "number"},
        "verified_by_rejection": {"type": "boolean"}}}}},
    "ChatChoice": {"type": "object", "properties": {"index": {"type": "integer"},
      "message": {"$ref": "#/components/schemas/Message"},
      "logprobs": {"type": ["object", "null"]},
      "finish_reason": {"enum": ["stop", "length", "tool_calls", "timeout", null]},
      "stop_reason": {"type": ["string", "null"], "description": "The stop string that ended it"},
      "token_ids": {"type": "array", "items": {"type": "integer"}}}},
    "CompletionChoice": {"type": "object", "properties": {"index": {"type": "integer"},
      "text": {"type": "string"}, "logprobs": {"type": ["object", "null"]},
      "finish_reason": {"enum": ["stop", "length", "timeout", null]},
      "stop_reason": {"type": ["string", "null"]}, "seed": {"type": "integer"},
      "token_ids": {"type": "array", "items": {"type": "integer"}},
      "prompt_token_ids": {"type": "array", "items": {"type": "integer"}},
      "prompt_logprobs": {"type": "array"}}},
    "ChatCompletion": {"type": "object", "properties": {"id": {"type": "string"},
      "object": {"enum": ["chat.completion"]}, "created": {"type": "integer"},
      "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
      "choices": {"type": "array", "items": {"$ref": "#/components/schemas/ChatChoice"}},
      "usage": {"$ref": "#/components/schemas/Usage"}, "seed": {"type": "integer"},
      "prompt_token_ids": {"type": "array", "items": {"type": "integer"}},
      "prompt_logprobs": {"type": "array"}}},
    "Completion": {"type": "object", "properties": {"id": {"type": "string"},
      "object": {"enum": ["text_completion"]}, "created": {"type": "integer"},
      "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
      "choices": {"type": "array", "items": {"$ref": "#/components/schemas/CompletionChoice"}},
      "usage": {"$ref": "#/components/schemas/Usage"}, "seed": {"type": "integer"}}},
    "Model": {"type": "object", "properties": {"id": {"type": "string"},
      "object": {"enum": ["model"]}, "created": {"type": "integer"}, "owned_by": {"type": "string"},
      "max_model_len": {"type": "integer"}, "meta": {"type": "object"},
      "status": {"type": "object", "properties": {
        "value": {"enum": ["unloaded", "loading", "loaded", "unloading"]},
        "failed": {"enum": [true]},
        "error": {"type": "string", "description": "Why it was not loaded when that was tried"}}}}},
    "Models": {"type": "object", "properties": {"object": {"enum": ["list"]},
      "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
    "EmbeddingRequest": {"type": "object", "required": ["input"], "additionalProperties": false,
      "properties": {"model": {"type": "string"},
        "input": {"oneOf": [{"type": "string", "minLength": 1},
          {"type": "array", "minItems": 1, "items": {"type": "integer"}},
          {"type": "array", "minItems": 1, "maxItems": @embedding_inputs_max@, "items": {"oneOf": [
            {"type": "string", "minLength": 1},
            {"type": "array", "minItems": 1, "items": {"type": "integer"}}]}}]},
        "dimensions": {"type": "integer", "minimum": 1,
          "description": "The first numbers of each vector, in its length again; default: all"},
        "encoding_format": {"enum": ["float", "base64"], "default": "float"},
        "truncate": {"type": "boolean", "default": false,
          "description": "Leave out the end of a text that is too long, rather than refuse it"},
        "truncate_prompt_tokens": {"enum": [-1], "description": "As truncate"},
        "add_special_tokens": {"type": "boolean", "default": true},
        "priority": {"type": "integer", "minimum": -@priority_max@, "maximum": @priority_max@, "default": 0},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": @timeout_seconds_max@,
          "description": "Seconds, after which the answer ends with what has come, or with a 504 where nothing has"},
        "user": {"type": "string", "description": "Without effect"}}},
    "Embeddings": {"type": "object", "properties": {"object": {"enum": ["list"]},
      "model": {"type": "string"},
      "data": {"type": "array", "items": {"type": "object", "properties": {
        "object": {"enum": ["embedding"]}, "index": {"type": "integer"},
        "embedding": {"oneOf": [{"type": "array", "items": {"type": "number"}},
          {"type": "string", "description": "base64 of floats, the lowest byte first"}]}}}},
      "usage": {"type": "object", "properties": {"prompt_tokens": {"type": "integer"},
        "total_tokens": {"type": "integer"}}}}},
    "Texts": {"oneOf": [{"type": "string", "minLength": 1}, {"type": "array", "minItems": 1,
      "maxItems": @documents_max@, "items": {"oneOf": [{"type": "string", "minLength": 1},
        {"type": "object", "required": ["text"], "additionalProperties": false,
          "properties": {"text": {"type": "string", "minLength": 1}, "id": {"type": "string"}}}]}}]},
    "TokenizeRequest": {"type": "object", "additionalProperties": false, "properties": {
      "model": {"type": "string"},
      "prompt": {"type": "string", "maxLength": @tokenize_bytes_max@, "description": "Limited in bytes"},
      "content": {"type": "string", "maxLength": @tokenize_bytes_max@,
        "description": "Another name of prompt"},
      "add_special_tokens": {"type": "boolean", "default": true}, "add_special": {"type": "boolean"},
      "parse_special": {"type": "boolean", "default": true},
      "return_token_strs": {"type": "boolean", "default": false}, "with_pieces": {"type": "boolean"}}},
    "Tokens": {"type": "object", "properties": {
      "tokens": {"type": "array", "items": {"type": "integer"}}, "count": {"type": "integer"},
      "max_model_len": {"type": "integer"},
      "token_strs": {"type": "array", "items": {"type": "string"}}}},
    "DetokenizeRequest": {"type": "object", "required": ["tokens"], "additionalProperties": false,
      "properties": {"model": {"type": "string"},
        "tokens": {"type": "array", "maxItems": @detokenize_ids_max@, "items": {"type": "integer"}},
        "skip_special_tokens": {"type": "boolean", "default": false}}},
    "Text": {"type": "object", "properties": {"prompt": {"type": "string"},
      "content": {"type": "string"}}},
    "TokenizerInfo": {"type": "object", "properties": {
      "bos_token": {"type": ["string", "null"]}, "eos_token": {"type": ["string", "null"]},
      "unk_token": {"type": ["string", "null"]}, "pad_token": {"type": ["string", "null"]},
      "chat_template": {"type": ["string", "null"]}, "model_max_length": {"type": "integer"}}},
    "State": {"type": "object", "properties": {"status": {"enum": ["ok"]}}},
    "Control": {"type": "object", "required": ["id", "action"], "additionalProperties": false,
      "properties": {"id": {"type": "string", "description": "Of the answer, as its chunks have it"},
        "action": {"enum": ["stop", "end_thinking"]}}},
    "Controlled": {"type": "object", "properties": {"id": {"type": "string"},
      "action": {"enum": ["stop", "end_thinking"]}, "status": {"enum": ["ok"]}}},
    "Version": {"type": "object", "properties": {"name": {"enum": ["sluice"]},
      "version": {"type": "string"}, "commit": {"type": "string"}, "compiler": {"type": "string"},
      "backends": {"type": "array", "items": {"type": "string"}}}})json";

std::string Errors(const char* schema) {
  return StrCat(R"("default": {"description": "An error", "content":
        {"application/json": {"schema": {"$ref": "#/components/schemas/)",
                schema, R"("}}}})");
}

std::string Content(const std::string& schema) {
  return StrCat(R"("content": {"application/json": {"schema": {"$ref": "#/components/schemas/)",
                schema, R"("}}})");
}

std::string Answers(const std::string& content) {
  return StrCat(R"("responses": {"200": {"description": "Done", )", content, "}, ", Errors("Error"),
                "}");
}

// A path that is read: its summary and the schema of its answer.
std::string Get(const char* path, const char* summary, const std::string& content,
                const char* parameters = "") {
  return StrCat("    \"", path, "\": {\"get\": {\"summary\": \"", summary, "\", ", parameters,
                Answers(content), "}}");
}

std::string Post(const char* path, const char* summary, const std::string& body,
                 const std::string& content, const char* parameters = "") {
  return StrCat("    \"", path, "\": {\"post\": {\"summary\": \"", summary, "\", ", parameters,
                R"("requestBody": {"required": true, )", Content(body), "}, ", Answers(content),
                "}}");
}

// A path that whoever has no key may read, too.
std::string GetOpen(const char* path, const char* summary, const std::string& content) {
  return Get(path, summary, content, R"("security": [], )");
}

std::string Typed(const char* type) {
  return StrCat(R"("content": {")", type, R"(": {"schema": {"type": "string"}}})");
}

// The answer of a call that may stream.
std::string OrStream(const char* schema) {
  return StrCat(R"("content": {"application/json": {"schema": {"$ref": "#/components/schemas/)",
                schema, R"("}}, "text/event-stream": {"schema": {"type": "string"}}})");
}

std::string Paths() {
  constexpr const char* kModelParameter =
      R"("parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}], )";
  constexpr const char* kTimed = "@timed@";
  constexpr const char* kStreamParameter =
      R"("parameters": [{"name": "Last-Event-ID", "in": "header", "required": true, "schema": {"type": "string"}}], )";
  return StrCat(
      Post("/v1/chat/completions", "Answers a conversation", "ChatRequest",
           OrStream("ChatCompletion"), kTimed),
      ",\n",
      Post("/v1/completions", "Continues texts", "CompletionRequest", OrStream("Completion"),
           kTimed),
      ",\n",
      Post("/v1/embeddings", "Turns texts into vectors, by a model that embeds", "EmbeddingRequest",
           Content("Embeddings"), kTimed),
      ",\n",
      Post("/v1/chat/completions/control",
           "Ends an answer that is running where it stands, as a stop string would, or its "
           "thinking; "
           "for the API key that asked for it",
           "Control", Content("Controlled")),
      ",\n",
      Get("/v1/streams",
          "The rest of a stream whose request had resume_seconds, behind the event that the header "
          "Last-Event-ID names",
          Typed("text/event-stream"), kStreamParameter),
      ",\n", Get("/v1/models", "The models served", Content("Models")), ",\n",
      Get("/v1/models/{model}", "One model", Content("Model"), kModelParameter), ",\n",
      Post("/tokenize", "Text to token ids", "TokenizeRequest", Content("Tokens")), ",\n",
      Post("/detokenize", "Token ids to text", "DetokenizeRequest", Content("Text")), ",\n",
      Get("/tokenizer_info", "Special tokens and chat template", Content("TokenizerInfo"),
          "@of_model@"),
      ",\n", Post("/apply-template", "Renders a conversation", "TemplateRequest", Content("Text")),
      ",\n",
      GetOpen(
          "/health",
          "200 while the engine makes progress; 503 while a step or a text worker hangs, and for 5 "
          "s "
          "after three failed steps",
          Content("State")),
      ",\n", GetOpen("/live", "200 while the process lives", Content("State")), ",\n",
      GetOpen("/ready", "200 while requests are taken; 503 otherwise", Content("State")), ",\n",
      Get("/metrics", "Prometheus metrics", Typed("text/plain")), ",\n",
      Get("/version", "What runs here", Content("Version")), ",\n",
      Get("/openapi.json", "This document", Typed("application/json")), ",\n",
      GetOpen("/", "A page that says what runs here", Typed("text/html")));
}

// The fields of sluice/sampling.h, each followed by a comma.
std::string SamplingSchema() {
  std::string out;
  const auto add = [&out](const SamplingField& field, std::string_view name, bool whole) {
    const auto digits = [whole](double number) {
      return whole ? StrCat(static_cast<int64_t>(number)) : StrCat(number);
    };
    out += StrCat("\n        \"", name, "\": {\"type\": \"", whole ? "integer" : "number", "\", \"",
                  "minimum\": ", digits(field.range.low),
                  ", \"maximum\": ", digits(field.range.high), ", ");
    if (field.in_model) {
      out += StrCat("\"description\": \"unset: what the model's generation_config says, else ",
                    field.otherwise, "\"},");
    } else {
      out += StrCat("\"default\": ", field.otherwise, "},");
    }
  };
  ForEachSamplingField(
      [&](const SamplingField& field, const auto& value) {
        constexpr bool kWhole = std::is_same_v<decltype(*value), const int&>;
        add(field, field.name, kWhole);
        if (!field.alias.empty()) add(field, field.alias, kWhole);
      },
      Sampling());
  return out;
}

std::string RequestSchema(const char* name, const std::string& required,
                          const std::string& fields) {
  return StrCat(",\n    \"", name, "\": {\"type\": \"object\", \"required\": [", required,
                "], \"additionalProperties\": false, \"properties\": {", fields, "}}");
}

// The spellings of the most tokens of an answer; `allowed`: beside -1.
std::string LimitsSchema(const std::string& allowed) {
  std::string out;
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    out += StrCat(out.empty() ? "" : ",\n        ", "\"", name,
                  R"(": {"type": "integer", "anyOf": [{"enum": [-1]}, )", allowed,
                  R"(], "description": "-1: what is left of the context"})");
  }
  return out;
}

// What stands as @name@ in the texts above.
std::map<std::string, std::string, std::less<>> Inserts() {
  std::map<std::string, std::string, std::less<>> inserts;
  inserts["accepted_request"] = AcceptedSchema(FieldPlace::kRequest);
  inserts["accepted_stream_options"] = AcceptedSchema(FieldPlace::kStreamOptions);
  inserts["accepted_message"] = AcceptedSchema(FieldPlace::kMessage);
  inserts["accepted_part"] = AcceptedSchema(FieldPlace::kPart);
  inserts["accepted_thinking"] = AcceptedSchema(FieldPlace::kThinking);
  inserts["accepted_tool"] = AcceptedSchema(FieldPlace::kTool);
  inserts["accepted_anthropic_request"] = AcceptedSchema(FieldPlace::kAnthropicRequest);
  inserts["accepted_anthropic_block"] = AcceptedSchema(FieldPlace::kAnthropicBlock);
  inserts["accepted_anthropic_tool"] = AcceptedSchema(FieldPlace::kAnthropicTool);
  inserts["accepted_responses_request"] = AcceptedSchema(FieldPlace::kResponsesRequest);
  inserts["accepted_responses_item"] = AcceptedSchema(FieldPlace::kResponsesItem);
  inserts["accepted_responses_part"] = AcceptedSchema(FieldPlace::kResponsesPart);
  inserts["accepted_responses_tool"] = AcceptedSchema(FieldPlace::kResponsesTool);
  inserts["accepted_responses_reasoning"] = AcceptedSchema(FieldPlace::kResponsesReasoning);
  inserts["accepted_decisions_request"] = AcceptedSchema(FieldPlace::kDecisionsRequest);
  inserts["timed"] = R"("parameters": [{"$ref": "#/components/parameters/RequestTimeout"}], )";
  inserts["of_model"] = R"("parameters": [{"$ref": "#/components/parameters/OfModel"}], )";
  inserts["questions_max"] = StrCat(kQuestionsMax);
  inserts["answers_max"] = StrCat(kAnswersMax);
  inserts["errors"] = Errors("Error");
  inserts["accepted_llama_request"] = AcceptedSchema(FieldPlace::kLlamaRequest);
  inserts["accepted_ollama_request"] = AcceptedSchema(FieldPlace::kOllamaRequest);
  inserts["accepted_ollama_options"] = AcceptedSchema(FieldPlace::kOllamaOptions);
  inserts["accepted_ollama_message"] = AcceptedSchema(FieldPlace::kOllamaMessage);
  inserts["ollama_errors"] = Errors("OllamaError");
  inserts["anthropic_errors"] = Errors("AnthropicError");
  inserts["cohere_errors"] = Errors("CohereError");
  inserts["sampling"] = SamplingSchema();
  inserts["limits_chat"] = LimitsSchema(R"({"minimum": 1})");
  inserts["limits_completion"] = LimitsSchema(R"({"minimum": 0})");
  const auto range = [&inserts](const std::string& name, limits::Range ends) {
    inserts[name + "_low"] = StrCat(ends.low);
    inserts[name + "_high"] = StrCat(ends.high);
  };
  range("bias", limits::kLogitBias);
  inserts["choices_max"] = StrCat(limits::kChoicesMax);
  inserts["resume_seconds_max"] = StrCat(ResumableStreams::kSecondsMax);
  inserts["readers_max"] = StrCat(ResumableStreams::kReadersMax);
  inserts["streams_max"] = StrCat(ResumableStreams::kStreamsMax);
  inserts["beams_max"] = StrCat(BeamSearch::kWidthMax);
  inserts["beam_widths_max"] = StrCat(BeamSearch::kWidthsMax);
  inserts["length_penalty_max"] = StrCat(BeamSearch::kLengthPenaltyMax);
  inserts["biases_max"] = StrCat(limits::kLogitBiasesMax);
  inserts["choice_texts_max"] = StrCat(limits::kChoiceTextsMax);
  inserts["choice_kib"] = StrCat(limits::kChoiceTextBytesMax >> 10);
  inserts["stops_max"] = StrCat(limits::kStopsMax);
  inserts["stop_bytes_max"] = StrCat(limits::kStopBytesMax);
  inserts["stop_ids_max"] = StrCat(limits::kStopIdsMax);
  inserts["logprobs_max"] = StrCat(limits::kTopLogprobsMax);
  inserts["tokenize_bytes_max"] = StrCat(limits::kTokenizeBytesMax);
  inserts["detokenize_ids_max"] = StrCat(limits::kDetokenizeIdsMax);
  inserts["prompt_logprobs_mib"] = StrCat(limits::kPromptLogprobsBytesMax >> 20);
  inserts["priority_max"] = StrCat(kPriorityMax);
  inserts["timeout_seconds_max"] = StrCat(kTimeoutSecondsMax);
  inserts["salt_bytes_max"] = StrCat(kSaltBytesMax);
  inserts["messages_max"] = StrCat(kMessagesMax);
  inserts["tools_max"] = StrCat(kToolsMax);
  inserts["edits_max"] = StrCat(kContextEditsMax);
  inserts["parts_max"] = StrCat(kPartsMax);
  inserts["tool_calls_max"] = StrCat(kToolCallsMax);
  inserts["documents_max"] = StrCat(kDocumentsMax);
  inserts["embedding_inputs_max"] = StrCat(kEmbeddingInputsMax);
  inserts["prompts_max"] = StrCat(kPromptsMax);
  inserts["kwargs_kib"] = StrCat(kKwargsBytesMax >> 10);
  return inserts;
}

std::string WithInserts(std::string_view text) {
  const auto inserts = Inserts();
  std::string out;
  for (;;) {
    const size_t begin = text.find('@');
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const size_t end = text.find('@', begin + 1);
    const auto insert = inserts.find(text.substr(begin + 1, end - begin - 1));
    CHECK(end != std::string_view::npos && insert != inserts.end(), text.substr(begin, 32));
    out += insert->second;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string OpenApiDocument() {
  constexpr const char* kChatOnly = R"json(
        "logprobs": {"type": "boolean", "default": false},
        "top_logprobs": {"type": "integer", "minimum": 0, "maximum": @logprobs_max@},
        "modalities": {"enum": [["text"]]}, "audio": {"type": "null"},
        "web_search_options": {"type": "null"}, "echo": {"enum": [false]},
        "add_special_tokens": {"enum": [false]},
        @limits_chat@,
        "prediction": {"type": "object", "required": ["type", "content"], "additionalProperties": false,
          "description": "What the answer may quote: drafts come from it too (--speculate); changes no answer",
          "properties": {"type": {"enum": ["content"]}, "content": {"oneOf": [{"type": "string"},
            {"type": "array", "maxItems": @parts_max@, "items": {"$ref": "#/components/schemas/TextPart"}}]}}})json";
  constexpr const char* kCompletionOnly = R"json(
        "prompt": {"oneOf": [{"type": "string", "minLength": 1},
          {"type": "array", "minItems": 1, "items": {"type": "integer"}},
          {"type": "array", "minItems": 1, "maxItems": @prompts_max@, "items": {"oneOf": [{"type": "string"},
            {"type": "array", "minItems": 1, "items": {"type": "integer"}}]}}]},
        "logprobs": {"type": "integer", "minimum": 0, "maximum": @logprobs_max@},
        "echo": {"type": "boolean", "default": false},
        "add_special_tokens": {"type": "boolean", "default": true},
        @limits_completion@,
        "best_of": {"type": "integer", "minimum": 1, "maximum": @choices_max@,
          "description": "So many answers are drawn, and the n with the highest mean log-prob told; not streamed above n. Of a beam search: beam_width"},
        "suffix": {"enum": ["", null]})json";
  std::string paths = Paths(), schemas = kSchemas;
  for (const OpenApiPart& part :
       {AnthropicPart(), LlamaPart(StrCat(SamplingSchema(), kSharedFields, ",@limits_completion@")),
        OllamaPart(), ResponsesPart(), BatchesPart(), TimelinePart(), ModelsPart(), ProfilePart(),
        RankPart()}) {
    paths += StrCat(",", part.paths);
    schemas += StrCat(",", part.schemas);
  }
  return WithInserts(StrCat(
      "{\"openapi\": \"3.1.0\", \"info\": {\"title\": \"Sluice\", \"version\": \"", SLUICE_VERSION,
      "\"},\n  \"paths\": {\n", paths, "\n  },\n  ", kKeysAndParameters, ",\n  \"schemas\": {",
      schemas,
      RequestSchema(
          "ChatRequest", "\"messages\"",
          StrCat(SamplingSchema(), kSharedFields, kChoices, ",", kChatFields, ",", kChatOnly)),
      RequestSchema("CompletionRequest", "\"prompt\"",
                    StrCat(SamplingSchema(), kSharedFields, kChoices, ",", kCompletionOnly)),
      RequestSchema("TemplateRequest", "\"messages\"",
                    StrCat("\"model\": {\"type\": \"string\"},", kChatFields)),
      "\n  }}}\n"));
}

}  // namespace sluice::server
