// How much of a step runs as captured graphs, by its spelling (EngineOptions::graphs). Pure; any
// thread.
#pragma once

#include <string_view>

#include "device/types.h"
#include "sluice/status.h"

namespace sluice::exec {

// "none", "piecewise" or "full"; kInvalidArgument for anything else.
Result<device::GraphSupport> ParseGraphLevel(std::string_view text);

}  // namespace sluice::exec
