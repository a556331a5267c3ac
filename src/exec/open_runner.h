// From checked files and the options of an engine to a runner: opens the device, plans its memory,
// loads the model and warms up. Any thread.
#pragma once

#include <cstddef>
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

// What a runner takes of its device's memory, in bytes.
struct MemoryNeed {
  size_t weight_bytes = 0, kv_bytes = 0;
  size_t step_bytes = 0;  // the buffers of a step
};
// What OpenRunner would plan now, a draft included. Opens the device, and loads nothing.
Result<MemoryNeed> PlanRunner(const files::ModelFiles& files, const DraftFiles& draft,
                              const EngineOptions& options);

// The backends in this program, as --device names them.
std::vector<std::string> Backends();

}  // namespace sluice::exec
