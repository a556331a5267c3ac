#include "cli/load/workload.h"

#include <algorithm>

#include "base/log.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/load/lengths.h"

namespace sluice::load {
namespace {

constexpr int kProbeTokens = 16, kProbeAnswerTokens = 2;
constexpr uint32_t kProbeIndex = UINT32_MAX;
constexpr uint32_t kWarmUpIndex = 1u << 30;  // above every request's

}  // namespace

Result<Workload> Workload::Make(const WorkloadOptions& options) {
  Workload work;
  work.options_ = options;
  const bool output_given = !options.output_tokens.empty();
  SLUICE_ASSIGN_OR_RETURN(const LengthDistribution input,
                          ParseLengths(options.input_tokens, "input-tokens"));
  SLUICE_ASSIGN_OR_RETURN(
      const LengthDistribution output,
      ParseLengths(output_given ? options.output_tokens : WorkloadOptions::kOutputDefault,
                   "output-tokens"));
  size_t count = static_cast<size_t>(options.requests.value_or(WorkloadOptions::kRequestsDefault));
  if (!options.dataset.empty()) {
    SLUICE_ASSIGN_OR_RETURN(work.entries_, ReadDataset(options.dataset, count));
    if (options.requests && work.entries_.size() < count) {
      return InvalidArgument(
          StrCat("--requests ", count, " asks for more than the ", work.entries_.size(),
                 " prompts of ", Quote(options.dataset), "; lower it"),
          "requests");
    }
    count = work.entries_.size();
  }
  work.output_tokens_ = DrawLengths(output, count, options.seed, RandomPurpose::kOutputTokens);
  if (work.entries_.empty()) {
    work.input_tokens_ = DrawLengths(input, count, options.seed, RandomPurpose::kInputTokens);
    return work;
  }
  work.input_tokens_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    DatasetEntry& entry = work.entries_[i];
    const auto* ids = std::get_if<std::vector<int32_t>>(&entry.prompt);
    if (ids != nullptr) work.input_tokens_[i] = static_cast<int>(ids->size());
    if (output_given) entry.answer.clear();
    if (!output_given && entry.output_tokens) work.output_tokens_[i] = *entry.output_tokens;
  }
  return work;
}

Status Workload::Fit(const Target& target, const ServerFacts& facts) {
  facts_ = facts;
  vocab_size_ = options_.vocab_size > 0 ? options_.vocab_size
                : facts.vocab_size > 0  ? facts.vocab_size
                                        : kVocabGuess;
  SLUICE_RETURN_IF_ERROR(Probe(target));
  for (size_t i = 0; i < entries_.size(); ++i) {
    const DatasetEntry& entry = entries_[i];
    if (entry.answer.empty() || entry.output_tokens) continue;
    SLUICE_ASSIGN_OR_RETURN(output_tokens_[i], CountTokens(target, facts, entry.answer));
  }
  return CheckLengths();
}

Status Workload::Probe(const Target& target) {
  Status first_error;
  for (const bool ids : {true, false}) {
    if (options_.prompts == (ids ? "text" : "ids")) continue;
    sends_ids_ = ids;
    Load load;
    load.requests = 1;
    load.concurrency = 1;
    load.body = [&](size_t) {
      return CompletionBody(RandomPrompt(kProbeTokens, kProbeIndex), kProbeAnswerTokens,
                            facts_.model);
    };
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes, RunLoad(target, load));
    const Outcome& outcome = outcomes.front();
    if (outcome.end == Outcome::End::kCutOff) {
      return Status(StatusCode::kCancelled, "stopped by the user");
    }
    const std::string why = StrCat(Visible(outcome.failure), outcome.detail.empty() ? "" : ": ",
                                   Visible(outcome.detail));
    if (outcome.end == Outcome::End::kCompleted) {
      if (!ids && !first_error.ok() && entries_.empty()) {
        LogWarning("the server does not take prompts of token ids (", first_error.message(),
                   "), so they are texts of as many words, which may have more tokens");
      }
      return OkStatus();
    }
    if (first_error.ok()) first_error = Status(StatusCode::kUnavailable, why);
    if (outcome.failure != "HTTP 400" && outcome.failure != "HTTP 422") break;
  }
  return Status(StatusCode::kUnavailable,
                StrCat("the server does not answer a short request to /v1/completions (",
                       first_error.message(), ")"));
}

Status Workload::CheckLengths() const {
  if (facts_.max_model_len == 0) return OkStatus();
  for (size_t i = 0; i < size(); ++i) {
    if (input_tokens_[i] + output_tokens_[i] <= facts_.max_model_len) continue;
    return InvalidArgument(
        StrCat("request ", i + 1, " has a prompt of ", input_tokens_[i], " tokens and asks for ",
               output_tokens_[i], ", more than the ", facts_.max_model_len,
               " tokens of a sequence of the server; lower --input-tokens and --output-tokens, or ",
               "raise the server's --max-model-len"),
        "input-tokens");
  }
  return OkStatus();
}

Prompt Workload::RandomPrompt(int tokens, uint32_t index) const {
  if (sends_ids_) return RandomIds(tokens, vocab_size_, options_.seed, index);
  return RandomWords(tokens, options_.seed, index);
}

std::string Workload::Body(size_t index) const {
  const Prompt& prompt = entries_.empty()
                             ? RandomPrompt(input_tokens_[index], static_cast<uint32_t>(index))
                             : entries_[index].prompt;
  return CompletionBody(prompt, output_tokens_[index], facts_.model);
}

std::string Workload::WarmUpBody(size_t index) const {
  const int tokens = std::max(input_tokens_[index % size()], kProbeTokens);
  return CompletionBody(RandomPrompt(tokens, kWarmUpIndex + static_cast<uint32_t>(index)),
                        output_tokens_[index % size()], facts_.model);
}

}  // namespace sluice::load
