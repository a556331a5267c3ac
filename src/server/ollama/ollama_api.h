// Ollama's API: the bodies of /api/chat and /api/generate, and what it tells of the model. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/openai/embedding_api.h"
#include "server/shared/api_call.h"
#include "server/shared/models.h"
#include "sluice/engine.h"

namespace sluice::server {

// A call without a request asks for nothing but that the model is there.
Result<ApiCall> ParseOllamaChat(std::string_view body, const ModelFacts& model);
Result<ApiCall> ParseOllamaGenerate(std::string_view body, const ModelFacts& model);

// The answer to such a call. `leaves`: it asked that the model be unloaded.
std::string OllamaLoaded(const ApiCall& call, bool leaves);

// The field keep_alive, in seconds: a number of them, or a duration as "1h30m".
std::optional<double> ReadKeepAlive(Fields* fields);

// The name in `field`: absent, or that which is served, with Ollama's tag or without.
void ReadOllamaModel(Fields* fields, std::string_view field, const ModelFacts& model);

// /api/embed: the texts' vectors. `call.requests` is given away.
Result<EmbeddingCall> ParseOllamaEmbed(std::string_view body, const ModelFacts& model);
std::string OllamaEmbedAnswer(const EmbeddingCall& call,
                              const std::vector<std::vector<float>>& embeddings,
                              const Usage& usage);

// /api/embeddings, the older path: the vector of one text, or none where there is no text.
Result<EmbeddingCall> ParseOllamaEmbedOne(std::string_view body, const ModelFacts& model);
std::string OllamaEmbedOneAnswer(const EmbeddingCall& call,
                                 const std::vector<std::vector<float>>& embeddings,
                                 const Usage& usage);

// /api/tags, of all models, and /api/ps, of those that are loaded. `started`, `now`: seconds since
// the epoch.
OrderedJson OllamaTags(const std::vector<ModelReport>& models, int64_t started);
OrderedJson OllamaRunning(const std::vector<ModelReport>& models, int64_t now);
// /api/show of a body that names the model, which has been there since then, in seconds since the
// epoch.
Result<std::string> OllamaShow(const EngineInfo& info, const std::string& chat_template,
                               int64_t since, std::string_view body);

// As their times are written: 2026-11-25T14:00:00Z.
std::string Rfc3339(int64_t seconds);

}  // namespace sluice::server
