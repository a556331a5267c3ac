// Profiles of an engine and orders to it, in the OpenAPI document.
#include <string>

#include "base/str_cat.h"
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kProfilePaths = R"json(
    "/admin/profile": {
      "post": {"summary": "A trace of the next steps, as ui.perfetto.dev shows it; takes an admin's key",
        "requestBody": {"content": {"application/json": {
          "schema": {"$ref": "#/components/schemas/ProfileRequest"}}}},
        "responses": {"200": {"description": "The steps that came within the time",
          "content": {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}}},
          @errors@}}})json";

// The path of an order that has no more fields than the model's name.
std::string OrderPath(const char* order, const char* summary, const char* properties) {
  return StrCat(",\n    \"/admin/", order, "\": {\"post\": {\"summary\": \"", summary,
                R"json(; takes an admin's key",
        "requestBody": {"content": {"application/json": {
          "schema": {"$ref": "#/components/schemas/EngineOrder"}}}},
        "responses": {"200": {"description": "Done", "content": {"application/json": {"schema": {
          "type": "object", "properties": {"ok": {"enum": [true]})json",
                properties, R"json(}}}}},
          @errors@}}})json");
}

constexpr const char* kProfileSchemas = R"json(
    "EngineOrder": {"type": "object", "additionalProperties": false, "properties": {
      "model": {"type": "string"}}},
    "ProfileRequest": {"type": "object", "additionalProperties": false, "properties": {
      "model": {"type": "string"},
      "steps": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
      "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 60, "default": 10}}})json";

}  // namespace

OpenApiPart ProfilePart() {
  return {StrCat(kProfilePaths,
                 OrderPath("pause", "Let running requests keep their place and step no more", ""),
                 OrderPath("resume", "Step again after a pause", ""),
                 OrderPath("drain", "Take no new requests, for good; those that run go on",
                           R"json(, "running": {"type": "integer"})json"),
                 OrderPath("cache_flush", "Forget all cached prefixes",
                           R"json(, "blocks": {"type": "integer"})json")),
          kProfileSchemas};
}

}  // namespace sluice::server
