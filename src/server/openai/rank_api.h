// The bodies of /v1/rerank, /v1/score and /v1/classify, and their answers. A model that embeds
// scores two texts by the cosine of their vectors; one that classifies, or that answers whether
// they belong together, reads them as a pair. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/shared/api_call.h"
#include "sluice/engine.h"

namespace sluice::server {

inline constexpr size_t kDocumentsMax = 2048;

// Texts whose scores beside one another are wanted, in any of the forms.
struct RankCall {
  std::vector<std::string> texts;                // each once
  std::vector<std::pair<size_t, size_t>> pairs;  // of `texts`, one for each score
  bool truncate = false;
  bool reads_pairs = false;  // the model takes both texts of a pair at once
  std::string model;         // as it is served
  size_t top_n = 0;          // of documents: the best, in this order
  bool return_documents = false;
  std::optional<int> document_tokens_max;  // of each, behind which its end is left out: of /v2
};

// Errors as those of ParseChatCall.
Result<RankCall> ParseRerankCall(std::string_view body, const ModelFacts& model);
// The same of Cohere's /v2/rerank.
Result<RankCall> ParseCohereRerank(std::string_view body, const ModelFacts& model);
Result<RankCall> ParseScoreCall(std::string_view body, const ModelFacts& model);

// Of a call without pairs.
Result<RankCall> ParseClassifyCall(std::string_view body, const ModelFacts& model);

// One request for each text, or for each pair where the model reads pairs.
std::vector<Request> RequestsOf(const RankCall& call);
// `vectors`: of the requests. One score for each pair: the cosine of two texts' vectors, or the
// sigmoid of what the model gave the pair, or of its answers "no" and "yes" the share of the
// latter.
std::vector<double> ScoresOf(const RankCall& call, const std::vector<std::vector<float>>& vectors);

// As Jina's server answers; `id` becomes a part of the answer's.
std::string RerankAnswer(const RankCall& call, const std::vector<double>& scores,
                         const Usage& usage, const std::string& id);
std::string CohereAnswer(const RankCall& call, const std::vector<double>& scores,
                         const Usage& usage, const std::string& id);
// As vLLM answers.
std::string ScoreAnswer(const RankCall& call, const std::vector<double>& scores, const Usage& usage,
                        const std::string& id, int64_t created);

std::string ClassifyAnswer(const RankCall& call, const ModelFacts& model,
                           const std::vector<std::vector<float>>& vectors, const Usage& usage,
                           const std::string& id, int64_t created);

}  // namespace sluice::server
