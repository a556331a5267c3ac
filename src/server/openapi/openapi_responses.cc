// OpenAI's responses in the OpenAPI document.
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kResponsesPaths = R"json(
    "/v1/responses": {"post": {"summary": "Answers a conversation, in the form of responses",
      @timed@
      "requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/ResponsesRequest"}}}},
      "responses": {"200": {"description": "Done", "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/Response"}},
        "text/event-stream": {"schema": {"type": "string"}}}}, @errors@}}},
    "/v1/responses/{id}": {
      "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "get": {"summary": "A response of this key, as far as it has come or as it is stored, or its stream",
        "parameters": [
          {"name": "stream", "in": "query", "schema": {"type": "boolean", "default": false},
            "description": "The rest of its stream, whose request had background or resume_seconds; up to @readers_max@ clients may read one"},
          {"name": "starting_after", "in": "query", "schema": {"type": "integer", "minimum": 0},
            "description": "The sequence_number of the last event that came; else all of the stream"}],
        "responses": {"200": {"description": "Done", "content": {
          "application/json": {"schema": {"$ref": "#/components/schemas/Response"}},
          "text/event-stream": {"schema": {"type": "string"}}}}, @errors@}},
      "delete": {"summary": "Forgets such a response; one that runs is cancelled",
        "responses": {"200": {"description": "Done", "content": {"application/json": {"schema":
          {"type": "object", "properties": {"id": {"type": "string"},
            "object": {"enum": ["response"]}, "deleted": {"enum": [true]}}}}}}, @errors@}}},
    "/v1/responses/{id}/cancel": {
      "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "post": {"summary": "Ends a response of this key that runs, at once; its stream ends with response.incomplete",
        "responses": {"200": {"description": "It is cancelled, or was", "content": {
          "application/json": {"schema": {"$ref": "#/components/schemas/Response"}}}}, @errors@}}},
    "/v1/decisions": {"post": {"summary": "The probabilities of fixed answers to questions about an input",
      @timed@
      "requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/DecisionsRequest"}}}},
      "responses": {"200": {"description": "Done", "content": {"application/json": {"schema":
        {"type": "object", "properties": {"model": {"type": "string"},
          "answers": {"type": "array", "items": {"type": "object"}},
          "usage": {"type": "object"}}}}}}, @errors@}}})json";

constexpr const char* kResponsesSchemas = R"json(
    "ResponsesText": {"oneOf": [{"type": "string"}, {"type": "array", "maxItems": @parts_max@,
      "items": {"type": "object", "required": ["type"], "additionalProperties": false,
        "properties": {
          "type": {"enum": ["input_text", "input_json", "output_text", "text", "reasoning_text",
            "summary_text", "refusal"]},
          "text": {"type": "string"}, "refusal": {"type": "string"},
          "data": {"description": "Of input_json: a value that the model reads as JSON"},
          @accepted_responses_part@}}}]},
    "FlatFormat": {"type": "object", "required": ["type"], "additionalProperties": false,
      "properties": {"type": {"enum": ["text", "json_object", "json_schema"]},
        "name": {"type": "string"}, "description": {"type": "string"},
        "strict": {"type": "boolean", "default": true},
        "schema": {"description": "Of json_schema: what the answer is held to"}}},
    "ResponsesItem": {"type": "object", "additionalProperties": false, "properties": {
      "type": {"enum": ["message", "function_call", "function_call_output", "reasoning"],
        "default": "message"},
      "role": {"enum": ["user", "assistant", "system", "developer"]},
      "content": {"$ref": "#/components/schemas/ResponsesText"},
      "call_id": {"type": "string"}, "name": {"type": "string"}, "arguments": {"type": "string"},
      "output": {"$ref": "#/components/schemas/ResponsesText"},
      "summary": {"$ref": "#/components/schemas/ResponsesText"},
      "encrypted_content": {"type": ["string", "null"], "description": "Without effect"},
      @accepted_responses_item@}},
    "ResponsesRequest": {"type": "object", "required": ["input"], "additionalProperties": false,
      "properties": {@sampling@
        "model": {"type": "string", "description": "The served name; may be left out"},
        "input": {"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1,
          "maxItems": @messages_max@, "items": {"$ref": "#/components/schemas/ResponsesItem"}}]},
        "instructions": {"type": "string", "description": "A system message of this call alone"},
        "previous_response_id": {"type": "string",
          "description": "A stored response of this key, to go on from"},
        "store": {"type": "boolean", "default": true},
        "max_output_tokens": {"type": "integer", "minimum": 1},
        "seed": {"type": "integer", "description": "-1: drawn"},
        "stream": {"type": "boolean", "default": false},
        "background": {"type": "boolean", "default": false,
          "description": "Answered at once, in_progress; it goes on without its client, who asks for it at the response's own path. Needs store; up to @streams_max@ run at a time, together with streams that have resume_seconds"},
        "resume_seconds": {"type": "integer", "minimum": 1, "maximum": @resume_seconds_max@,
          "description": "Of a stream: it goes on so long without its client, which may come back to GET /v1/streams, or to the response's own path"},
        "stream_options": {"type": "object", "additionalProperties": false, "properties": {
          "include_obfuscation": {"type": "boolean", "description": "Without effect"}}},
        "tools": {"type": "array", "maxItems": @tools_max@, "items": {"type": "object",
          "required": ["type", "name"], "additionalProperties": false, "properties": {
            "type": {"enum": ["function"]}, "name": {"type": "string", "minLength": 1},
            "description": {"type": "string"}, "parameters": {"type": "object"},
            "strict": {"type": "boolean"}, @accepted_responses_tool@}}},
        "tool_choice": {"$ref": "#/components/schemas/ToolChoice"},
        "parallel_tool_calls": {"type": "boolean", "default": true},
        "reasoning": {"type": "object", "additionalProperties": false, "properties": {
          "effort": {"type": "string", "description": "The template's reasoning_effort"},
          @accepted_responses_reasoning@}},
        "text": {"type": "object", "additionalProperties": false, "properties": {
          "format": {"$ref": "#/components/schemas/FlatFormat"},
          "verbosity": {"type": "string", "description": "A variable of the template"}}},
        "include": {"type": "array", "items": {"enum": ["reasoning.encrypted_content"]}},
        @accepted_responses_request@}},
    "DecisionsRequest": {"type": "object", "required": ["input", "questions"],
      "additionalProperties": false, "properties": {
        "model": {"type": "string", "description": "The served name; may be left out"},
        "input": {"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1,
          "maxItems": @messages_max@, "items": {"$ref": "#/components/schemas/ResponsesItem"}}]},
        "questions": {"type": "array", "minItems": 1, "maxItems": @questions_max@,
          "description": "With @answers_max@ possible answers in all", "items": {"type": "object",
          "required": ["type", "instructions"], "additionalProperties": false, "properties": {
            "type": {"enum": ["predicate", "choice", "score"]}, "name": {"type": "string"},
            "instructions": {"$ref": "#/components/schemas/ResponsesText"},
            "choices": {"type": "array", "minItems": 2, "items": {"type": "object",
              "required": ["value"], "additionalProperties": false, "properties": {
                "value": {"type": ["string", "boolean"]}, "description": {"type": "string"}}}},
            "levels": {"type": "array", "minItems": 2, "items": {"type": "object",
              "required": ["label"], "additionalProperties": false, "properties": {
                "label": {"type": "string"}, "description": {"type": "string"}}}}}}},
        @accepted_decisions_request@}},
    "Response": {"type": "object", "properties": {"id": {"type": "string"},
      "object": {"enum": ["response"]}, "created_at": {"type": "integer"},
      "status": {"enum": ["completed", "incomplete", "in_progress", "failed", "cancelled"]},
      "background": {"type": "boolean"},
      "model": {"type": "string"}, "output": {"type": "array", "items": {"type": "object"}},
      "incomplete_details": {"type": ["object", "null"]}, "error": {"type": ["object", "null"]},
      "previous_response_id": {"type": ["string", "null"]},
      "usage": {"type": ["object", "null"], "properties": {"input_tokens": {"type": "integer"},
        "output_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"},
        "output_tokens_details": {"type": "object", "properties": {
          "reasoning_tokens": {"type": "integer"}, "synthetic_acceptance": {"type": "number"},
          "verified_by_rejection": {"type": "boolean"}}}}}}})json";

}  // namespace

OpenApiPart ResponsesPart() { return {kResponsesPaths, kResponsesSchemas}; }

}  // namespace sluice::server
