#include "engine/request_check.h"

#include <array>
#include <set>
#include <type_traits>
#include <utility>

#include "base/check_range.h"
#include "base/str_cat.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "sluice/limits.h"
#include "sluice/sampling.h"
#include "text/grammar.h"

namespace sluice::engine {
namespace {

Status OutOfRange(std::string_view field, double value, std::string_view range) {
  return InvalidArgument(StrCat(field, " is ", value, "; it must be ", range), std::string(field));
}

Status CheckSampling(const Sampling& sampling) {
  Status status;
  ForEachSamplingField(
      [&status](const SamplingField& field, const auto& value) {
        if (status.ok() && value) status = CheckRange(field.name, *value, field.range);
      },
      sampling);
  SLUICE_RETURN_IF_ERROR(status);
  if (sampling.logit_bias.size() > limits::kLogitBiasesMax) {
    return InvalidArgument(StrCat("logit_bias has ", sampling.logit_bias.size(),
                                  " entries; the limit is ", limits::kLogitBiasesMax),
                           "logit_bias");
  }
  for (const auto& [id, bias] : sampling.logit_bias) {
    SLUICE_RETURN_IF_ERROR(CheckRange("logit_bias", bias, limits::kLogitBias));
  }
  return OkStatus();
}

Status CheckChoice(const Request& request) {
  if (request.choice.empty()) return OkStatus();
  const auto refuse = [](std::string what) { return InvalidArgument(std::move(what), "choice"); };
  if (request.choice.size() > limits::kChoiceTextsMax) {
    return refuse(StrCat("choice has ", request.choice.size(), " texts; the limit is ",
                         limits::kChoiceTextsMax));
  }
  size_t bytes = 0;
  std::set<std::string_view> seen;
  for (const std::string& text : request.choice) {
    if (text.empty())
      return refuse("choice has an empty text; each must have at least a character");
    if (!IsValidUtf8(text)) return refuse("choice has a text that is not UTF-8");
    if (!seen.insert(text).second) {
      return refuse(
          StrCat("choice has ", Quote(Utf8Prefix(text, 64)), " twice; send each text once"));
    }
    bytes += text.size();
  }
  if (bytes <= limits::kChoiceTextBytesMax) return OkStatus();
  return refuse(StrCat("the texts of choice have ", bytes, " bytes; the limit of all together is ",
                       limits::kChoiceTextBytesMax));
}

Status CheckGrammar(const Request& request) {
  const Grammar& grammar = request.grammar;
  if (grammar.kind == Grammar::Kind::kNone) return OkStatus();
  const auto refuse = [](std::string what) { return InvalidArgument(std::move(what), "grammar"); };
  if (!request.choice.empty()) {
    return refuse(
        "an answer is held either to a grammar or to a choice of texts; send one of them");
  }
  const std::string_view name = text::NameOf(grammar.kind);
  if (grammar.text.empty()) return refuse(StrCat(name, " is empty"));
  if (grammar.text.size() > limits::kGrammarBytesMax) {
    return refuse(StrCat(name, " has ", grammar.text.size(), " bytes; the limit is ",
                         limits::kGrammarBytesMax));
  }
  if (!IsValidUtf8(grammar.text)) return refuse(StrCat(name, " is not UTF-8"));
  return OkStatus();
}

Status CheckThinking(const Request& request) {
  const std::optional<int>& ngram = request.sampling.no_repeat_ngram;
  if (!request.thinking_budget || ngram.value_or(0) == 0) return OkStatus();
  return InvalidArgument(
      "thinking_budget and no_repeat_ngram_size may steer against each other; send one of them",
      "thinking_budget");
}

Status CheckStops(const Request& request, int vocab) {
  if (request.stop.size() > limits::kStopsMax) {
    return InvalidArgument(
        StrCat("stop has ", request.stop.size(), " strings; the limit is ", limits::kStopsMax),
        "stop");
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > limits::kStopBytesMax) {
      return InvalidArgument(StrCat("a stop string has ", stop.size(), " bytes; it must have 1 to ",
                                    limits::kStopBytesMax),
                             "stop");
    }
  }
  if (request.stop_token_ids.size() > limits::kStopIdsMax) {
    return InvalidArgument(StrCat("stop_token_ids has ", request.stop_token_ids.size(),
                                  " ids; the limit is ", limits::kStopIdsMax),
                           "stop_token_ids");
  }
  for (const int32_t id : request.stop_token_ids) {
    if (id < 0 || id >= vocab) {
      return InvalidArgument(
          StrCat("stop_token_ids has the id ", id, "; the vocabulary has ", vocab),
          "stop_token_ids");
    }
  }
  return OkStatus();
}

}  // namespace

Status CheckRequest(const Request& request, int vocab) {
  SLUICE_RETURN_IF_ERROR(CheckRange("n", request.n, 1, limits::kChoicesMax));
  if (request.max_tokens && *request.max_tokens < 0) {
    return OutOfRange("max_tokens", *request.max_tokens, "0 or more");
  }
  if (request.min_tokens < 0 || (request.max_tokens && request.min_tokens > *request.max_tokens)) {
    return OutOfRange("min_tokens", request.min_tokens,
                      request.max_tokens ? StrCat("between 0 and max_tokens, ", *request.max_tokens)
                                         : "0 or more");
  }
  for (const auto& [field, value] : {std::pair{"logprobs", request.logprobs},
                                     std::pair{"prompt_logprobs", request.prompt_logprobs}}) {
    if (value) SLUICE_RETURN_IF_ERROR(CheckRange(field, *value, 0, limits::kTopLogprobsMax));
  }
  SLUICE_RETURN_IF_ERROR(CheckSampling(request.sampling));
  SLUICE_RETURN_IF_ERROR(CheckStops(request, vocab));
  SLUICE_RETURN_IF_ERROR(CheckChoice(request));
  SLUICE_RETURN_IF_ERROR(CheckGrammar(request));
  SLUICE_RETURN_IF_ERROR(CheckThinking(request));
  SLUICE_RETURN_IF_ERROR(
      CheckRange("client_weight", request.client_weight, 1, limits::kClientWeightMax));
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    for (const int32_t id : *ids) {
      if (id < 0 || id >= vocab) {
        return InvalidArgument(
            StrCat("prompt has the token id ", id, "; the vocabulary has ", vocab), "prompt");
      }
    }
  }
  return OkStatus();
}

Status CheckEmbedding(const Request& request, const EngineInfo& model) {
  if (!request.embed) {
    if (model.embedding_size == 0) return OkStatus();
    return InvalidArgument(
        "the model embeds texts and generates none; ask for an embedding, as /v1/embeddings does",
        "model");
  }
  if (model.embedding_size == 0) {
    return InvalidArgument(
        "the model generates texts and embeds none; ask for a completion, or serve a model that "
        "embeds",
        "model");
  }
  if (request.n != 1) return OutOfRange("n", request.n, "1: a text has one embedding");
  if (request.logits_processor != nullptr) {
    return InvalidArgument("an embedding has no logits; send it without logits_processor",
                           "logits_processor");
  }
  if (request.all_logprobs != Distribution::kNone) {
    return InvalidArgument("an embedding has no log-probs; send it without all_logprobs",
                           "all_logprobs");
  }
  if (request.second_text && model.labels.empty()) {
    return InvalidArgument("the model embeds one text at a time; pairs are for one that classifies",
                           "model");
  }
  if (request.second_text && !std::holds_alternative<std::string>(request.prompt)) {
    return InvalidArgument("a pair is made of two texts, not of token ids", "input");
  }
  if (request.text_tokens_max) {
    SLUICE_RETURN_IF_ERROR(CheckRange("text_tokens_max", *request.text_tokens_max, 1, 1 << 30));
  }
  if (!request.dimensions) return OkStatus();
  if (!model.labels.empty()) {
    return InvalidArgument("dimensions is for models that embed; the model classifies",
                           "dimensions");
  }
  return CheckRange("dimensions", *request.dimensions, 1, model.embedding_size);
}

int64_t AllLogprobsRowBytes(const Request& request, int vocab) {
  if (request.all_logprobs == Distribution::kNone) return 0;
  return int64_t{request.n} * vocab * static_cast<int64_t>(sizeof(float));
}

Status CheckAllLogprobs(const Request& request, int vocab, int longest,
                        const std::string& no_filtered) {
  const int64_t row_bytes = AllLogprobsRowBytes(request, vocab);
  if (row_bytes == 0) return OkStatus();
  if (request.all_logprobs == Distribution::kFiltered && !no_filtered.empty()) {
    return Status(StatusCode::kUnimplemented,
                  StrCat("the device cannot tell all_logprobs behind the filters (", no_filtered,
                         "); ask for the raw ones, or take --device cpu"),
                  "all_logprobs");
  }
  const int tokens = request.max_tokens.value_or(longest);
  const int64_t tokens_max = limits::kAllLogprobsBytesMax / row_bytes;
  if (tokens <= tokens_max) return OkStatus();
  return InvalidArgument(
      StrCat("all_logprobs of up to ", tokens, " tokens of ", request.n,
             " answers, by a vocabulary of ", vocab, ", have ", tokens * row_bytes,
             " bytes; the limit is ", limits::kAllLogprobsBytesMax, ": set max_tokens to ",
             tokens_max, " or less"),
      "max_tokens");
}

Status CheckOptions(EngineOptions options) {
  Status status;
  options.ForEach([&](auto& field, std::string_view flag, std::string_view, auto... range) {
    if constexpr (sizeof...(range) == 2) {
      const std::array<int64_t, 2> limits = {range...};
      if (status.ok() && (field < limits[0] || field > limits[1])) {
        status = InvalidArgument(RangeError(StrCat("--", flag), field, limits[0], limits[1]),
                                 std::string(flag));
      }
    }
  });
  return status;
}

Sampling SamplingOf(const files::GenerationDefaults& defaults) {
  Sampling sampling = defaults.sampling;
  return defaults.do_sample && !*defaults.do_sample ? Greedy(std::move(sampling)) : sampling;
}

batch::SamplingParams ResolveSampling(const Request& request,
                                      const files::GenerationDefaults& defaults) {
  const Sampling& asked = request.sampling;
  batch::SamplingParams params;
  ForEachRequestField(
      [](const SamplingField& field, const auto& first, const auto& second, auto& value) {
        using Value = std::remove_reference_t<decltype(value)>;
        value = first    ? static_cast<Value>(*first)
                : second ? static_cast<Value>(*second)
                         : static_cast<Value>(field.otherwise);
      },
      asked, SamplingOf(defaults), params);
  params.min_tokens = request.min_tokens;
  params.top_logprobs = request.logprobs.value_or(-1);
  params.distribution = request.all_logprobs;
  params.prompt_top_logprobs = request.prompt_logprobs.value_or(request.prompt_loss ? 0 : -1);
  for (const auto& [id, bias] : asked.logit_bias) {
    params.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return params;
}

}  // namespace sluice::engine
