// What happened to a request, in the OpenAPI document.
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kTimelinePaths = R"json(
    "/v1/requests/events": {
      "get": {"summary": "A stream of events: the requests of the last minute, of this key or of all for an admin",
        "responses": {"200": {"description": "An event at once, and one for each change",
          "content": {"text/event-stream": {"schema": {"$ref": "#/components/schemas/LiveEvent"}}}},
          @errors@}}},
    "/v1/requests/{id}/timeline": {
      "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"},
        "description": "As the answer's header X-Request-Id has it"}],
      "get": {"summary": "What happened to a request of this key, running or ended, in the last minutes",
        "responses": {"200": {"description": "Done", "content": {"application/json": {
          "schema": {"$ref": "#/components/schemas/Timelines"}}}}, @errors@}}})json";

constexpr const char* kTimelineSchemas = R"json(
    "LiveEvent": {"type": "object", "properties": {"now_ms": {"type": "integer"},
      "live": {"type": "object", "properties": {
        "requests": {"type": "array", "items": {"type": "object", "properties": {
          "id": {"type": "string"}, "requests": {"type": "integer"}, "begun_ms": {"type": "integer"},
          "admitted_ms": {"type": "integer"}, "first_token_ms": {"type": "integer"},
          "ended_ms": {"type": "integer"}, "prompt_tokens": {"type": "integer"},
          "drawn_tokens": {"type": "integer"}}}},
        "errors": {"type": "array", "items": {"type": "object", "properties": {
          "at_ms": {"type": "integer"}, "status": {"type": "integer"}, "method": {"type": "string"},
          "path": {"type": "string"}, "id": {"type": "string"}, "message": {"type": "string"}}}}}}}},
    "Timelines": {"type": "object", "properties": {"id": {"type": "string"},
      "object": {"enum": ["request.timeline"]}, "requests": {"type": "integer"},
      "age_ms": {"type": ["number", "null"]},
      "timelines": {"type": "array", "items": {"type": "object", "properties": {
        "submitted_ms": {"type": ["number", "null"]}, "queued_ms": {"type": ["number", "null"]},
        "admitted_ms": {"type": ["number", "null"]}, "first_chunk_ms": {"type": ["number", "null"]},
        "first_token_ms": {"type": ["number", "null"]}, "ended_ms": {"type": ["number", "null"]}, "prompt_tokens": {"type": "integer"},
        "cached_tokens": {"type": "integer"}, "drawn_tokens": {"type": "integer"},
        "drafted_tokens": {"type": "integer"}, "accepted_tokens": {"type": "integer"},
        "preemptions": {"type": "integer"}, "late_masks": {"type": "integer"},
        "events": {"type": "array", "items": {"type": "object", "properties": {
          "kind": {"enum": ["prefill", "decode", "preempted", "late_mask"]},
          "choice": {"type": "integer"}, "begin_ms": {"type": "number"},
          "end_ms": {"type": ["number", "null"]}, "first_step": {"type": "integer"},
          "steps": {"type": "integer"}, "tokens": {"type": "integer"},
          "sequences_per_step": {"type": "number"}}}}}}}}})json";

}  // namespace

OpenApiPart TimelinePart() { return {kTimelinePaths, kTimelineSchemas}; }

}  // namespace sluice::server
