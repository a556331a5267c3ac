// An engine for a command that runs a model. Call once, from the main thread.
#pragma once

#include <memory>

#include "sluice/engine.h"

namespace sluice::cli {

// Engine::Open. A terminal sees on its error stream how much of the weights is loaded.
Result<std::unique_ptr<Engine>> OpenEngine(const EngineOptions& options);

// "cuda:0 (NVIDIA H200)": what the model runs on.
std::string DeviceOf(const EngineInfo& info);

}  // namespace sluice::cli
