// Profiles of an engine, in the OpenAPI document.
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kPaths = R"json(
    "/admin/profile": {
      "post": {"summary": "A trace of the next steps, as ui.perfetto.dev shows it; takes an admin's key",
        "requestBody": {"content": {"application/json": {
          "schema": {"$ref": "#/components/schemas/ProfileRequest"}}}},
        "responses": {"200": {"description": "The steps that came within the time",
          "content": {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}}},
          @errors@}}})json";

constexpr const char* kSchemas = R"json(
    "ProfileRequest": {"type": "object", "additionalProperties": false, "properties": {
      "model": {"type": "string"},
      "steps": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
      "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 60, "default": 10}}})json";

}  // namespace

OpenApiPart ProfilePart() { return {kPaths, kSchemas}; }

}  // namespace sluice::server
