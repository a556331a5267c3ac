// How chat and generate draw tokens: their flags, and the values they take when neither the flag
// nor the model says otherwise. The HTTP API has OpenAI's defaults instead, which let a small model
// ramble. Main thread only.
#pragma once

#include <CLI/App.hpp>

#include "sluice/engine.h"

namespace sluice::cli {

// Declares the flags of sluice/sampling.h and --seed on `app`; a flag that is not given leaves its
// field unset.
void AddSamplingOptions(CLI::App& app, Sampling* sampling);

// `asked` with these commands' defaults in the fields that neither it nor `model` (EngineInfo's
// sampling_defaults) sets; what the model sets stays unset, for the engine to fill in.
Sampling WithTerminalDefaults(Sampling asked, const Sampling& model);

}  // namespace sluice::cli
