// Where the experts of a model lie and are computed, by --experts-on: which layers have theirs on
// the host, and how many layers it takes until the rest fits the device. Pure; any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "files/model_files.h"
#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice::exec {

// The layers that have experts, in order.
std::vector<int> ExpertLayers(const files::ModelConfig& config);

// Of `options.experts_on`: the layers with experts that the host is to have, in order. "auto" names
// none, since it depends on the device's memory. kInvalidArgument with one sentence: another word,
// a list that is none, layers that the model lacks or that have no experts, or ranks that share
// experts beside.
Result<std::vector<int>> LayersOnHost(const files::ModelConfig& config,
                                      const EngineOptions& options);

// What experts on the host take of its memory, and beside them a device that shares it.
struct HostNeed {
  size_t weights = 0;  // of these experts
  size_t buffers = 0;  // of a step of max_tokens tokens
  size_t device = 0;   // 0: it has memory of its own
  int64_t max_tokens = 0;
};

// What is left of the host's free memory. kOutOfMemory with one sentence: it is too little.
Result<size_t> LeftOnHost(const HostNeed& need, size_t free_bytes);

// The least number in [1, all] that `fits`, which holds for any number above one that it holds for.
// REQUIRES: fits(all).
size_t FewestThatFit(size_t all, const std::function<bool(size_t)>& fits);

}  // namespace sluice::exec
