// How chat and generate draw tokens: their flags, and the values they take when neither the flag
// nor the model says otherwise. The HTTP API has OpenAI's defaults instead, which let a small model
// ramble. Main thread only.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>

#include "sluice/engine.h"

namespace sluice::cli {

// How a flag is spelled that sets the field of this name: "--top-k".
std::string FlagOf(std::string_view name);

// Declares the flags of sluice/sampling.h on `app`; one that is not given leaves its field unset.
void AddSamplingOptions(CLI::App& app, Sampling* sampling);

// Of an answer: at most, and what says that only the context ends it.
inline constexpr int kMaxTokensMax = 1 << 24;
inline constexpr int kNoLimit = -1;

// Declares -n, --max-tokens: from `low` to kMaxTokensMax, or kNoLimit.
void AddMaxTokens(CLI::App& app, int low, const std::string& help, int* tokens);

// `asked` with these commands' defaults in the fields that neither it nor `model` (EngineInfo's
// sampling_defaults) sets; what the model sets stays unset, for the engine to fill in.
Sampling WithTerminalDefaults(Sampling asked, const Sampling& model);

}  // namespace sluice::cli
