// Anthropic's messages in the OpenAPI document.
#include "base/str_cat.h"
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kAnthropicPaths = R"json(
    "/v1/messages": {"post": {"summary": "Answers a conversation, in Anthropic's form",
      @timed@
      "requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/MessagesRequest"}}}},
      "responses": {"200": {"description": "Done", "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/AnthropicMessage"}},
        "text/event-stream": {"schema": {"type": "string"}}}}, @anthropic_errors@}}},
    "/v1/messages/count_tokens": {"post": {"summary": "Counts what such a conversation takes",
      "requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/CountTokensRequest"}}}},
      "responses": {"200": {"description": "Done", "content": {"application/json": {"schema":
        {"type": "object", "properties": {"input_tokens": {"type": "integer"}}}}}},
        @anthropic_errors@}}})json";

// Of both bodies.
constexpr const char* kPromptFields = R"json(
        "model": {"type": "string", "description": "The served name; may be left out"},
        "system": {"$ref": "#/components/schemas/AnthropicText"},
        "messages": {"type": "array", "minItems": 1, "maxItems": @messages_max@, "items":
          {"$ref": "#/components/schemas/AnthropicTurn"}},
        "tools": {"type": "array", "maxItems": @tools_max@, "items": {"type": "object",
          "required": ["name"], "additionalProperties": false, "properties": {
            "type": {"enum": ["custom", "bash_20241022", "bash_20250124", "text_editor_20250429",
              "text_editor_20250728", "memory_20250818", null],
              "description": "All but custom have no input_schema: the model is told what they take"},
            "max_characters": {"type": "integer", "minimum": 1, "description": "Without effect"},
            "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,128}$",
              "description": "No two tools have one name"},
            "description": {"type": "string"}, "input_schema": {"type": "object"},
            "strict": {"type": "boolean"}, @accepted_anthropic_tool@}}},
        "tool_choice": {"type": "object", "required": ["type"], "additionalProperties": false,
          "properties": {"type": {"enum": ["auto", "any", "tool", "none"]}, "name": {"type": "string"},
            "disable_parallel_tool_use": {"type": "boolean", "default": false}}},
        "thinking": {"type": "object", "required": ["type"], "additionalProperties": false,
          "properties": {"type": {"enum": ["enabled", "disabled", "adaptive", "between_tools"],
              "description": "Sets the template's enable_thinking, but for the last two"},
            "budget_tokens": {"type": "integer", "minimum": 0,
              "description": "Behind so many tokens the thinking is ended"},
            "block_binding": {"type": "object", "description": "Without effect"},
            "display": {"type": "string",
              "description": "omitted: blocks of thinking have no text. Else without effect"}}},
        "context_management": {"type": "object", "additionalProperties": false, "properties": {
          "edits": {"type": "array", "maxItems": @edits_max@, "items": {"type": "object",
            "required": ["type"], "properties": {"type": {"type": "string",
              "description": "clear_thinking_20251015 leaves out what was thought before the last keep.value messages that think; clear_tool_uses and compact have no effect"},
              "keep": {}}}}}},
        "output_config": {"type": "object", "additionalProperties": false, "properties": {
          "effort": {"type": "string", "description": "The template's reasoning_effort"},
          "format": {"$ref": "#/components/schemas/FlatFormat"}}},
        @accepted_anthropic_request@)json";

constexpr const char* kMessagesOnly = R"json(,
        "max_tokens": {"type": "integer", "minimum": 1,
          "description": "Where it is left out: what is left of the context"},
        "stop_sequences": {"type": "array", "maxItems": @stops_max@, "items":
          {"type": "string", "minLength": 1, "maxLength": @stop_bytes_max@}},
        "seed": {"type": "integer", "description": "-1: drawn"},
        "stream": {"type": "boolean", "default": false},
        "resume_seconds": {"type": "integer", "minimum": 1, "maximum": @resume_seconds_max@,
          "description": "Of a stream: it goes on so long without its client, which may come back to GET /v1/streams"})json";

constexpr const char* kAnthropicSchemas = R"json(
    "AnthropicText": {"oneOf": [{"type": "string"}, {"type": "array", "maxItems": @parts_max@,
      "items": {"type": "object", "required": ["type", "text"], "additionalProperties": false,
        "properties": {"type": {"enum": ["text"]}, "text": {"type": "string"},
          @accepted_anthropic_block@}}}]},
    "AnthropicBlock": {"type": "object", "required": ["type"], "additionalProperties": false,
      "properties": {
        "type": {"enum": ["text", "tool_use", "tool_result", "thinking", "redacted_thinking"]},
        "text": {"type": "string"}, "id": {"type": "string"}, "name": {"type": "string"},
        "input": {"type": "object"}, "tool_use_id": {"type": "string"},
        "content": {"$ref": "#/components/schemas/AnthropicText"},
        "is_error": {"type": "boolean", "description": "Without effect: the text says it"},
        "thinking": {"type": "string"}, "signature": {"type": "string"},
        "data": {"type": "string", "description": "Left out of the prompt"},
        @accepted_anthropic_block@}},
    "AnthropicTurn": {"type": "object", "required": ["role", "content"],
      "additionalProperties": false, "properties": {
        "role": {"enum": ["user", "assistant", "system"]},
        "content": {"oneOf": [{"type": "string"}, {"type": "array", "maxItems": @parts_max@,
          "items": {"$ref": "#/components/schemas/AnthropicBlock"}}]}}},
    "AnthropicError": {"type": "object", "properties": {"type": {"enum": ["error"]},
      "error": {"type": "object", "properties": {"type": {"type": "string"},
        "message": {"type": "string"}}}}},
    "AnthropicMessage": {"type": "object", "properties": {"id": {"type": "string"},
      "type": {"enum": ["message"]}, "role": {"enum": ["assistant"]}, "model": {"type": "string"},
      "content": {"type": "array", "items": {"$ref": "#/components/schemas/AnthropicBlock"}},
      "stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use"]},
      "stop_sequence": {"type": ["string", "null"]},
      "usage": {"type": "object", "properties": {
        "input_tokens": {"type": "integer", "description": "Without those of the cache"},
        "cache_creation_input_tokens": {"type": "integer"},
        "cache_read_input_tokens": {"type": "integer"}, "output_tokens": {"type": "integer"},
        "synthetic_acceptance": {"type": "number"},
        "verified_by_rejection": {"type": "boolean"}}}}})json";

std::string AnthropicBody(const char* name, const std::string& fields) {
  return StrCat(",\n    \"", name,
                "\": {\"type\": \"object\", \"required\": [\"messages\"], "
                "\"additionalProperties\": false, \"properties\": {",
                fields, "}}");
}

}  // namespace

OpenApiPart AnthropicPart() {
  return {
      kAnthropicPaths,
      StrCat(kAnthropicSchemas, AnthropicBody("CountTokensRequest", kPromptFields),
             AnthropicBody("MessagesRequest", StrCat("@sampling@", kPromptFields, kMessagesOnly)))};
}

}  // namespace sluice::server
