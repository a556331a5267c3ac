// Files and batches, for the OpenAPI document.
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kBatchesPaths = R"json(
    "/v1/files": {
      "post": {"summary": "Keeps a file of lines for a batch", "requestBody": {"required": true,
        "content": {"multipart/form-data": {"schema": {"type": "object",
          "required": ["file", "purpose"], "properties": {
            "file": {"type": "string", "contentMediaType": "application/octet-stream"},
            "purpose": {"enum": ["batch"]}}}}}},
        "responses": {"200": {"description": "Done", "content": {"application/json":
          {"schema": {"$ref": "#/components/schemas/File"}}}}, @errors@}},
      "get": {"summary": "The files of the API key, the newest first", "parameters": [
        {"name": "purpose", "in": "query", "schema": {"type": "string"}},
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1,
          "maximum": 10000, "default": 10000}},
        {"name": "after", "in": "query", "schema": {"type": "string"},
          "description": "The last_id of the page before"},
        {"name": "order", "in": "query", "schema": {"enum": ["desc", "asc"]}}], "responses": {"200": {"description": "Done",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Files"}}}},
        @errors@}}},
    "/v1/files/{id}": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "get": {"summary": "What a file is", "responses": {"200": {"description": "Done",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/File"}}}},
        @errors@}},
      "delete": {"summary": "Forgets a file", "responses": {"200": {"description": "Done",
        "content": {"application/json": {"schema": {"type": "object"}}}}, @errors@}}},
    "/v1/files/{id}/content": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "get": {"summary": "The bytes of a file", "responses": {"200": {"description": "Done",
        "content": {"application/octet-stream": {"schema": {"type": "string"}}}},
        @errors@}}},
    "/v1/batches": {
      "post": {"summary": "Answers the lines of a file, behind other requests", "requestBody":
        {"required": true, "content": {"application/json":
          {"schema": {"$ref": "#/components/schemas/BatchRequest"}}}},
        "responses": {"200": {"description": "Done", "content": {"application/json":
          {"schema": {"$ref": "#/components/schemas/Batch"}}}}, @errors@}},
      "get": {"summary": "The batches of the API key, the newest first", "parameters": [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1,
          "maximum": 100, "default": 20}},
        {"name": "after", "in": "query", "schema": {"type": "string"},
          "description": "The last_id of the page before"},
        {"name": "order", "in": "query", "schema": {"enum": ["desc", "asc"]}}], "responses": {"200": {"description": "Done",
        "content": {"application/json": {"schema": {"type": "object", "properties": {
          "object": {"enum": ["list"]}, "has_more": {"type": "boolean"},
          "first_id": {"type": ["string", "null"]}, "last_id": {"type": ["string", "null"]},
          "data": {"type": "array", "items": {"$ref": "#/components/schemas/Batch"}}}}}}},
        @errors@}}},
    "/v1/batches/{id}": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "get": {"summary": "How far a batch is", "responses": {"200": {"description": "Done",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Batch"}}}},
        @errors@}}},
    "/v1/batches/{id}/cancel": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "post": {"summary": "Ends a batch with what it has", "responses": {"200":
        {"description": "Done", "content": {"application/json":
          {"schema": {"$ref": "#/components/schemas/Batch"}}}}, @errors@}}})json";

constexpr const char* kBatchesSchemas = R"json(
    "File": {"type": "object", "properties": {"id": {"type": "string"},
      "object": {"enum": ["file"]}, "bytes": {"type": "integer"},
      "created_at": {"type": "integer"}, "expires_at": {"type": "integer"},
      "filename": {"type": "string"}, "purpose": {"enum": ["batch", "batch_output"]},
      "status": {"enum": ["processed"]}}},
    "Files": {"type": "object", "properties": {"object": {"enum": ["list"]},
      "data": {"type": "array", "items": {"$ref": "#/components/schemas/File"}},
      "first_id": {"type": ["string", "null"]}, "last_id": {"type": ["string", "null"]},
      "has_more": {"type": "boolean"}}},
    "BatchRequest": {"type": "object", "required": ["input_file_id", "endpoint", "completion_window"],
      "additionalProperties": false, "properties": {
        "input_file_id": {"type": "string"},
        "endpoint": {"enum": ["/v1/chat/completions", "/v1/completions", "/v1/embeddings",
          "/v1/responses"]},
        "completion_window": {"enum": ["24h"]}, "metadata": {"type": ["object", "null"]},
        "output_expires_after": {"description": "Without effect"}}},
    "Batch": {"type": "object", "properties": {"id": {"type": "string"},
      "object": {"enum": ["batch"]}, "endpoint": {"type": "string"},
      "status": {"enum": ["validating", "failed", "in_progress", "completed", "expired",
        "cancelling", "cancelled"]},
      "input_file_id": {"type": "string"}, "output_file_id": {"type": ["string", "null"]},
      "error_file_id": {"type": ["string", "null"]}, "errors": {"type": ["object", "null"]},
      "completion_window": {"enum": ["24h"]}, "created_at": {"type": "integer"},
      "request_counts": {"type": "object", "properties": {"total": {"type": "integer"},
        "completed": {"type": "integer"}, "failed": {"type": "integer"}}},
      "metadata": {"type": ["object", "null"]}}})json";

}  // namespace

OpenApiPart BatchesPart() { return {kBatchesPaths, kBatchesSchemas}; }

}  // namespace sluice::server
