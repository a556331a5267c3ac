// From checked files and the options of an engine to a runner: opens the device, plans its memory,
// loads the model and warms up. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/draft_files.h"
#include "exec/step_runner.h"
#include "files/model_files.h"
#include "sluice/options.h"

namespace sluice::exec {

// `draft`: as OpenDraft gives it. `progress(done, total)`: bytes of weights; may be empty.
Result<std::unique_ptr<StepRunner>> OpenRunner(const files::ModelFiles& files,
                                               const DraftFiles& draft,
                                               const EngineOptions& options,
                                               std::function<void(int64_t, int64_t)> progress);

// The backends in this program, as --device names them.
std::vector<std::string> Backends();

}  // namespace sluice::exec
