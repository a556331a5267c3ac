#include "engine/request_check.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/check_range.h"
#include "base/str_cat.h"
#include "sluice/limits.h"

namespace sluice::engine {
namespace {

Status OutOfRange(std::string_view field, double value, std::string_view range) {
  return InvalidArgument(StrCat(field, " is ", value, "; it must be ", range), std::string(field));
}

Status CheckSampling(const Sampling& sampling) {
  if (sampling.temperature) {
    SLUICE_RETURN_IF_ERROR(CheckRange("temperature", *sampling.temperature, limits::kTemperature));
  }
  if (sampling.top_p) SLUICE_RETURN_IF_ERROR(CheckRange("top_p", *sampling.top_p, limits::kTopP));
  if (sampling.min_p) SLUICE_RETURN_IF_ERROR(CheckRange("min_p", *sampling.min_p, limits::kMinP));
  if (sampling.repetition_penalty) {
    SLUICE_RETURN_IF_ERROR(
        CheckRange("repetition_penalty", *sampling.repetition_penalty, limits::kRepetitionPenalty));
  }
  SLUICE_RETURN_IF_ERROR(
      CheckRange("presence_penalty", sampling.presence_penalty, limits::kPresencePenalty));
  SLUICE_RETURN_IF_ERROR(
      CheckRange("frequency_penalty", sampling.frequency_penalty, limits::kFrequencyPenalty));
  SLUICE_RETURN_IF_ERROR(
      CheckRange("no_repeat_ngram_size", sampling.no_repeat_ngram, 0, limits::kNoRepeatNgramMax));
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

Status CheckFeatures(const Request& request) {
  const auto missing = [](std::string_view field) {
    return InvalidArgument(StrCat(field, " is not supported by this version; leave it out"),
                           std::string(field));
  };
  if (!request.adapter.empty()) return missing("adapter");
  if (!request.constraint_json.empty()) return missing("response_format");
  if (!request.media_json.empty()) return missing("media");
  if (!request.handoff_ticket.empty()) return missing("handoff_ticket");
  if (!request.beam_widths.empty()) return missing("beam_widths");
  return OkStatus();
}

}  // namespace

Status CheckRequest(const Request& request, int vocab) {
  SLUICE_RETURN_IF_ERROR(CheckFeatures(request));
  SLUICE_RETURN_IF_ERROR(CheckRange("n", request.n, 1, limits::kChoicesMax));
  if (request.max_tokens && *request.max_tokens < 0) {
    return OutOfRange("max_tokens", *request.max_tokens, "0 or more");
  }
  if (request.min_tokens < 0 || (request.max_tokens && request.min_tokens > *request.max_tokens)) {
    return OutOfRange("min_tokens", request.min_tokens, "between 0 and max_tokens");
  }
  for (const auto& [field, value] : {std::pair{"logprobs", request.logprobs},
                                     std::pair{"prompt_logprobs", request.prompt_logprobs}}) {
    if (value) SLUICE_RETURN_IF_ERROR(CheckRange(field, *value, 0, limits::kTopLogprobsMax));
  }
  SLUICE_RETURN_IF_ERROR(CheckSampling(request.sampling));
  SLUICE_RETURN_IF_ERROR(CheckStops(request, vocab));
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
  Sampling sampling;
  const bool greedy = defaults.do_sample && !*defaults.do_sample;
  sampling.temperature = defaults.temperature;
  if (greedy) sampling.temperature = 0;
  sampling.top_k = defaults.top_k;
  sampling.top_p = defaults.top_p;
  sampling.min_p = defaults.min_p;
  sampling.repetition_penalty = defaults.repetition_penalty;
  return sampling;
}

batch::SamplingParams ResolveSampling(const Request& request,
                                      const files::GenerationDefaults& defaults, uint64_t seed) {
  const Sampling& asked = request.sampling;
  const Sampling model = SamplingOf(defaults);
  const auto pick = [](const auto& first, const auto& second, double otherwise) {
    return static_cast<float>(first ? *first : second ? *second : otherwise);
  };
  batch::SamplingParams params;
  params.temperature = pick(asked.temperature, model.temperature, 1.0);
  params.top_k = asked.top_k ? *asked.top_k : model.top_k.value_or(0);
  params.top_p = pick(asked.top_p, model.top_p, 1.0);
  params.min_p = pick(asked.min_p, model.min_p, 0.0);
  params.repetition_penalty = pick(asked.repetition_penalty, model.repetition_penalty, 1.0);
  params.presence_penalty = static_cast<float>(asked.presence_penalty);
  params.frequency_penalty = static_cast<float>(asked.frequency_penalty);
  params.no_repeat_ngram = asked.no_repeat_ngram;
  params.min_tokens = request.min_tokens;
  params.seed = asked.seed.value_or(seed);
  params.top_logprobs = request.logprobs.value_or(-1);
  params.prompt_top_logprobs = request.prompt_logprobs.value_or(request.prompt_loss ? 0 : -1);
  for (const auto& [id, bias] : asked.logit_bias) {
    params.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return params;
}

}  // namespace sluice::engine
