#include "cli/completion_json.h"

#include <cstdio>
#include <ctime>

namespace sluice::cli {
namespace {

Json LogprobsJson(const RunResult& result) {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  size_t offset = 0;
  for (const TokenInfo& token : result.tokens) {
    if (!token.logprob) return nullptr;
    tokens.push_back(token.bytes);
    logprobs.push_back(*token.logprob);
    offsets.push_back(offset);
    offset += token.bytes.size();
    Json top = Json::object();
    for (const TopToken& entry : token.top) top[entry.bytes] = entry.logprob;
    tops.push_back(std::move(top));
  }
  return Json{{"tokens", tokens},
              {"token_logprobs", logprobs},
              {"top_logprobs", tops},
              {"text_offset", offsets}};
}

}  // namespace

Json CompletionJson(const Engine& engine, const RunResult& result) {
  const EngineInfo info = engine.Info();
  const Usage& usage = result.usage;
  const auto rate = [](double tokens, double ms) { return ms > 0 ? tokens * 1e3 / ms : 0.0; };
  Json ids = Json::array();
  for (const TokenInfo& token : result.tokens) ids.push_back(token.id);
  Json choice = {{"index", 0},
                 {"text", result.text},
                 {"token_ids", ids},
                 {"logprobs", LogprobsJson(result)},
                 {"finish_reason", Name(result.finish)}};
  Json drafts = {{"accepted_prediction_tokens", usage.accepted_tokens},
                 {"rejected_prediction_tokens", usage.rejected_tokens}};
  if (usage.synthetic_acceptance > 0.0) drafts["synthetic_acceptance"] = usage.synthetic_acceptance;
  if (usage.verified_by_rejection) drafts["verified_by_rejection"] = true;
  return Json{{"id", "cmpl-1"},
              {"object", "text_completion"},
              {"created", std::time(nullptr)},
              {"model", info.model_name},
              {"device", info.device_id},
              {"choices", Json::array({choice})},
              {"seed", result.seed},
              {"usage",
               {{"prompt_tokens", usage.prompt_tokens},
                {"completion_tokens", usage.completion_tokens},
                {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                {"completion_tokens_details", drafts}}},
              {"timings",
               {{"load_ms", info.load_ms},
                {"prefill_ms", usage.prefill_ms},
                {"decode_ms", usage.decode_ms},
                {"prefill_tokens_per_second",
                 rate(usage.prompt_tokens - usage.cached_tokens, usage.prefill_ms)},
                {"decode_tokens_per_second", rate(usage.completion_tokens - 1, usage.decode_ms)}}}};
}

void PrintLogprobs(const RunResult& result, std::ostream& out) {
  for (const TokenInfo& token : result.tokens) {
    char number[32];
    std::snprintf(number, sizeof number, "%10.5f", token.logprob.value_or(0));
    out << number << "  " << DumpJson(Json(token.bytes));
    for (const TopToken& top : token.top) {
      std::snprintf(number, sizeof number, "%.5f", top.logprob);
      out << "  " << DumpJson(Json(top.bytes)) << " " << number;
    }
    out << "\n";
  }
}

}  // namespace sluice::cli
