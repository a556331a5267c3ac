// What the memory of a model on a device, and of what guesses beside it, is planned from: the
// files, the options, and what the device has free. memory_plan.h shares it out.
#pragma once

#include <cstddef>
#include <optional>

#include "exec/executor.h"
#include "exec/memory_plan.h"
#include "files/model_files.h"
#include "sluice/options.h"
#include "weights/plan.h"

namespace sluice::exec {

// What is to be loaded to guess beside a model; without weights there is nothing.
struct DraftPlan {
  DraftOf of;
  std::optional<weights::WeightPlan> weights;
};

// A model whose memory is to be planned.
struct Target {
  const files::ModelFiles& files;
  const weights::WeightPlan& weights;
  const model::ModelOptions& options;
  size_t free_bytes_max;  // beside the weights, whatever the device says
};

// Of a sequence in a step, at most.
int DraftTokens(const EngineOptions& options);

Result<Executor::Options> ExecutorOptions(const EngineOptions& options);

// As PlanLongest.
Result<MemoryPlan> PlanTarget(device::Device& device, const Target& target, const DraftPlan& draft,
                              const EngineOptions& options, bool shorter);

}  // namespace sluice::exec
