// How models are loaded and unloaded and their experts watched, in the OpenAPI document.
#include "server/openapi/openapi_parts.h"

namespace sluice::server {
namespace {

constexpr const char* kModelsPaths = R"json(
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
    "/admin/experts": {"get": {"summary": "Loads of a model's experts, and with ranks a plan for them",
      "parameters": [
        {"name": "ranks", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 512}},
        {"name": "replicas", "in": "query", "schema": {"type": "integer", "minimum": 0}},
        {"name": "nodes", "in": "query", "schema": {"type": "integer", "minimum": 1}},
        {"name": "model", "in": "query", "schema": {"type": "string"}}],
      "responses": {"200": {"description": "Done", "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/ExpertLoads"}}}}, @errors@}},
      "post": {"summary": "Move a model's experts between its ranks",
        "requestBody": {"required": true, "content": {"application/json": {
          "schema": {"$ref": "#/components/schemas/ExpertMoves"}}}},
        "responses": {"200": {"description": "They move between the steps from now on",
          "content": {"application/json": {"schema": {"type": "object"}}}}, @errors@}}},
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

constexpr const char* kModelsSchemas = R"json(
    "ExpertLoads": {"type": "object", "properties": {"experts": {"type": "integer"},
      "half_life_s": {"type": "number"}, "choices": {"type": "integer"},
      "imbalance": {"type": "number"},
      "layers": {"type": "array", "items": {"type": "object", "properties": {
        "layer": {"type": "integer"}, "imbalance": {"type": "number"},
        "load": {"type": "array", "items": {"type": "number"}}}}},
      "balance": {"type": "object", "properties": {"ranks": {"type": "integer"},
        "redundant_experts": {"type": "integer"}, "slots_per_rank": {"type": "integer"},
        "interval": {"type": "string"}, "version": {"type": "integer"},
        "moving": {"type": "boolean"}, "imbalance": {"type": "number"},
        "rank_load": {"type": "array", "items": {"type": "number"}},
        "plans": {"type": "integer"}, "plans_declined": {"type": "integer"},
        "layers_moved": {"type": "integer"}, "migrations": {"type": "integer"},
        "migrated_bytes": {"type": "integer"},
        "layers": {"type": "array", "items": {"type": "object", "properties": {
          "layer": {"type": "integer"}, "version": {"type": "integer"},
          "ranks": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
          "rank_load": {"type": "array", "items": {"type": "number"}},
          "imbalance": {"type": "number"}, "imbalance_before": {"type": "number"},
          "imbalance_planned": {"type": "number"}}}}}},
      "plan": {"type": "object", "properties": {"policy": {"enum": ["global", "hierarchical"]},
        "ranks": {"type": "integer"}, "replicas": {"type": "integer"}, "nodes": {"type": "integer"},
        "slots_per_rank": {"type": "integer"}, "imbalance_in_order": {"type": "number"},
        "imbalance": {"type": "number"},
        "layers": {"type": "array", "items": {"type": "object", "properties": {
          "layer": {"type": "integer"}, "imbalance": {"type": "number"},
          "ranks": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}}}}}}}},
    "ExpertMoves": {"type": "object", "additionalProperties": false, "properties": {
      "model": {"type": "string"}, "rebalance": {"enum": [true]},
      "nodes": {"type": "integer", "minimum": 1},
      "layers": {"type": "array", "minItems": 1, "items": {"type": "object",
        "required": ["layer", "ranks"], "additionalProperties": false, "properties": {
        "layer": {"type": "integer", "minimum": 0},
        "ranks": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}}}}}},
    "ModelNamed": {"type": "object", "required": ["model"], "additionalProperties": false,
      "properties": {"model": {"type": "string", "minLength": 1}}},
    "ModelChanged": {"allOf": [{"$ref": "#/components/schemas/Model"},
      {"type": "object", "properties": {"success": {"enum": [true]}}}]})json";

}  // namespace

OpenApiPart ModelsPart() { return {kModelsPaths, kModelsSchemas}; }

}  // namespace sluice::server
