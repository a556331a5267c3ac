#include "engine/beam_request.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check_range.h"
#include "base/str_cat.h"
#include "schedule/beam_search.h"
#include "sluice/limits.h"
#include "sluice/sampling.h"

namespace sluice::engine {
namespace {

static_assert(BeamSearch::kWidthMax == schedule::kBeamsMax);
static_assert(BeamSearch::kWidthMax <= limits::kChoicesMax);  // ids that a request has

Status RefuseField(std::string_view field, std::string_view why) {
  return InvalidArgument(StrCat("a beam search ", why, "; send it without ", field),
                         std::string(field));
}

// A beam search draws no lot, so what shapes one has no effect; only values that say so are taken.
Status CheckBeamSampling(const Sampling& sampling) {
  Status status;
  const auto check = [&status](const SamplingField& field, const auto& value) {
    if (!status.ok() || !value || IsNeutral(field, *value)) return;
    status = RefuseField(field.name, "takes the likeliest tokens by the model's own log-probs");
  };
  ForEachSamplingField(check, sampling);
  SLUICE_RETURN_IF_ERROR(status);
  if (sampling.logit_bias.empty()) return OkStatus();
  return RefuseField("logit_bias", "takes the likeliest tokens by the model's own log-probs");
}

Status CheckBeside(const Request& request) {
  SLUICE_RETURN_IF_ERROR(CheckBeamSampling(request.sampling));
  if (!request.stop.empty()) {
    return InvalidArgument(
        "a beam search has no text before its end in which a stop string could be found; send "
        "stop_token_ids instead",
        "stop");
  }
  if (request.thinking_budget)
    return RefuseField("thinking_budget", "cannot end what a beam thinks");
  if (request.logits_processor != nullptr)
    return RefuseField("logits_processor",
                       "takes the likeliest tokens by the model's own log-probs");
  if (request.all_logprobs != Distribution::kNone)
    return RefuseField("all_logprobs", "tells the log-probs of its tokens alone");
  return OkStatus();
}

}  // namespace

Status CheckBeams(const Request& request, int vocab) {
  const BeamSearch& beams = request.beams;
  if (!beams.on()) return OkStatus();
  if (beams.widths.size() > static_cast<size_t>(BeamSearch::kWidthsMax)) {
    return InvalidArgument(StrCat("beam_width has ", beams.widths.size(), " numbers; the limit is ",
                                  BeamSearch::kWidthsMax),
                           "beam_width");
  }
  for (const int width : beams.widths) {
    SLUICE_RETURN_IF_ERROR(CheckRange("beam_width", width, 1, BeamSearch::kWidthMax));
  }
  const int width = beams.width();
  if (request.n > width) {
    return InvalidArgument(StrCat("n is ", request.n, "; a search of ", width,
                                  " beams gives at most as many answers: raise beam_width"),
                           "n");
  }
  if (vocab <= 2 * width) {
    return InvalidArgument(StrCat("beam_width is ", width, "; it must be below half of the ", vocab,
                                  " tokens of the vocabulary"),
                           "beam_width");
  }
  SLUICE_RETURN_IF_ERROR(CheckRange("length_penalty", beams.length_penalty,
                                    -BeamSearch::kLengthPenaltyMax, BeamSearch::kLengthPenaltyMax));
  if (const int tokens = request.max_tokens.value_or(1);
      tokens < 1 || tokens > BeamSearch::kTokensMax) {
    return InvalidArgument(StrCat("max_tokens is ", tokens, "; beside a beam search it must be ",
                                  "between 1 and ", BeamSearch::kTokensMax),
                           "max_tokens");
  }
  if (request.embed) return RefuseField("embed", "makes texts, not vectors");
  return CheckBeside(request);
}

Status SearchBeams(const Request& request, int longest, schedule::SequenceSpec* spec) {
  using Stop = schedule::BeamOptions::Stop;
  const BeamSearch& asked = request.beams;
  schedule::BeamOptions beams{.widths = {asked.widths.begin(), asked.widths.end()},
                              .length_penalty = asked.length_penalty,
                              .stop = asked.stop == BeamSearch::Stop::kEarly    ? Stop::kEarly
                                      : asked.stop == BeamSearch::Stop::kLikely ? Stop::kLikely
                                                                                : Stop::kNever,
                              .answers = request.n,
                              .asked = spec->sampling};
  std::vector<int32_t> ends = request.stop_token_ids;
  if (!spec->ignore_eos) ends.insert(ends.end(), spec->end_ids.begin(), spec->end_ids.end());
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  const int seen = beams.candidates(static_cast<int32_t>(ends.size()));
  if (seen > limits::kTopLogprobsMax) {
    return InvalidArgument(
        StrCat("beam_width is ", beams.width(), " and ", ends.size(),
               " ids end an answer; together they may be ", limits::kTopLogprobsMax,
               " at most: send a smaller beam_width or fewer stop_token_ids"),
        "beam_width");
  }
  spec->sampling =
      Greedy(batch::SamplingParams{.top_logprobs = std::max(seen, beams.asked.top_logprobs),
                                   .top_allowed = spec->masked,
                                   .prompt_top_logprobs = spec->sampling.prompt_top_logprobs});
  spec->device_drafts = 0;
  spec->quoted = nullptr;
  if (!request.max_tokens) {
    const int room = longest - static_cast<int>(spec->prompt.size());
    spec->max_tokens = std::clamp(room, 1, BeamSearch::kTokensMax);
  }
  spec->beams = std::make_shared<const schedule::BeamOptions>(std::move(beams));
  return OkStatus();
}

}  // namespace sluice::engine
