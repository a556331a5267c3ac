// Checks and completes what a client asked for, before anything is spent on it; and the options of
// an embedder. Pure functions.
#pragma once

#include "batch/sampling_params.h"
#include "files/model_config.h"
#include "sluice/engine.h"

namespace sluice::engine {

// kInvalidArgument with the field's name in OpenAI's spelling. `vocab`: ids must be below it.
Status CheckRequest(const Request& request, int vocab);

// Whether the model, which embeds or generates, can answer: as CheckRequest.
Status CheckEmbedding(const Request& request, const EngineInfo& model);

// Of whole distributions, one token of each answer: 4 bytes for each id; 0: none are asked for.
int64_t AllLogprobsRowBytes(const Request& request, int vocab);

// kInvalidArgument where these are more than a request may have (limits::kAllLogprobsBytesMax);
// kUnimplemented where the device has none of those asked for, for the reason `no_filtered`.
// `longest`: tokens of an answer without max_tokens, at most.
Status CheckAllLogprobs(const Request& request, int vocab, int longest,
                        const std::string& no_filtered);

// What the model says about sampling, for EngineInfo. One that says not to sample is greedy,
// whatever stands beside it.
Sampling SamplingOf(const files::GenerationDefaults& defaults);

// The sampling of choice 0, with the model's defaults filled in. REQUIRES: CheckRequest passed, and
// the request has a seed.
batch::SamplingParams ResolveSampling(const Request& request,
                                      const files::GenerationDefaults& defaults);

// kInvalidArgument with the flag's name when a number is outside its declared range.
Status CheckOptions(EngineOptions options);

}  // namespace sluice::engine
