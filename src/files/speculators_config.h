// config.json of a head in the format of vLLM's library speculators: it names its kind, and has the
// config of its layers, as of a model, within. Plain values; any thread.
#pragma once

#include "base/json.h"
#include "files/eagle_files.h"

namespace sluice::files {

bool IsSpeculators(const Json& config);

struct SpeculatorsHead {
  EagleForm form = EagleForm::kThird;
  // As of a head in its own format: the layers' config with the class of a model that has such
  // ones, and beside it what is said of the head.
  Json config;
  int block_tokens = 0;  // EagleConfig::block_tokens
};

// kBadModel when the kind or its layers are not supported. REQUIRES: IsSpeculators(config).
Result<SpeculatorsHead> ReadSpeculators(const Json& config);

}  // namespace sluice::files
