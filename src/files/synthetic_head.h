// Heads without files, beside models without files: of each form one with random weights in BF16,
// as wide as the model, for measuring what drafts cost; which of them count, --speculate-synthetic
// says. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "files/eagle_files.h"
#include "files/model_config.h"

namespace sluice::files {

// Whether --draft-model names one: "synthetic:<form>" or "synthetic:<form>:<tokens that it
// guesses>", where forms are eagle, eagle3, block (parallel EAGLE's) and dflash.
bool IsSyntheticHead(std::string_view path);

// Their names, as "synthetic:eagle, synthetic:eagle3".
std::string SyntheticHeads();

// One layer, of DFlash's form five. kInvalidArgument where the number of tokens makes no sense, or
// the model has none of attention with a feed-forward part, whose sizes the head takes. REQUIRES:
// IsSyntheticHead(path).
Result<EagleFiles> OpenSyntheticHead(const std::string& path, const ModelConfig& model);

}  // namespace sluice::files
