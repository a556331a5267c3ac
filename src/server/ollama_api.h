// Ollama's API: the bodies of /api/chat and /api/generate, and what it tells of the model. Pure
// functions.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/api_call.h"
#include "sluice/engine.h"

namespace sluice::server {

// A call without a request asks for nothing but that the model is there.
Result<ApiCall> ParseOllamaChat(std::string_view body, const ModelFacts& model);
Result<ApiCall> ParseOllamaGenerate(std::string_view body, const ModelFacts& model);

// The answer to such a call.
std::string OllamaLoaded(const ApiCall& call);

// /api/tags and /api/ps; `started`: seconds since the epoch.
OrderedJson OllamaTags(const EngineInfo& info, int64_t started);
OrderedJson OllamaRunning(const EngineInfo& info);
// /api/show of a body that names the model.
Result<std::string> OllamaShow(const Engine& engine, const ModelFacts& model, std::string_view body,
                               const std::atomic<bool>& gone);

// As their times are written: 2026-11-25T14:00:00Z.
std::string Rfc3339(int64_t seconds);

}  // namespace sluice::server
