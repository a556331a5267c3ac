// How models are loaded and unloaded, in the OpenAPI document.
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kPaths = R"json(
    "/v1/models/{model}/load": {
      "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
      "post": {"summary": "Load a model; answered when it is loaded",
        "responses": {"200": {"description": "It is loaded", "content": {"application/json": {
          "schema": {"$ref": "#/components/schemas/ModelChanged"}}}}, @errors@}}},
    "/v1/models/{model}/unload": {
      "parameters": [{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}],
      "post": {"summary": "Unload a model; answered when its memory is free",
        "responses": {"200": {"description": "It is unloaded", "content": {"application/json": {
          "schema": {"$ref": "#/components/schemas/ModelChanged"}}}}, @errors@}}},
    "/models": {"get": {"summary": "As /v1/models",
      "responses": {"200": {"description": "Done", "content": {"application/json": {
        "schema": {"type": "object"}}}}, @errors@}}},
    "/models/load": {"post": {"summary": "As /v1/models/{model}/load",
      "requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/ModelNamed"}}}},
      "responses": {"200": {"description": "It is loaded", "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/ModelChanged"}}}}, @errors@}}},
    "/models/unload": {"post": {"summary": "As /v1/models/{model}/unload",
      "requestBody": {"required": true, "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/ModelNamed"}}}},
      "responses": {"200": {"description": "It is unloaded", "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/ModelChanged"}}}}, @errors@}}})json";

constexpr const char* kSchemas = R"json(
    "ModelNamed": {"type": "object", "required": ["model"], "additionalProperties": false,
      "properties": {"model": {"type": "string", "minLength": 1}}},
    "ModelChanged": {"allOf": [{"$ref": "#/components/schemas/Model"},
      {"type": "object", "properties": {"success": {"enum": [true]}}}]})json";

}  // namespace

OpenApiPart ModelsPart() { return {kPaths, kSchemas}; }

}  // namespace sluice::server
