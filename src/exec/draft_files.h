// The draft model of --speculate model: its files, and whether it can guess for the model beside
// which it is opened. Any thread.
#pragma once

#include <memory>

#include "files/model_files.h"
#include "sluice/options.h"

namespace sluice::exec {

// Null where no draft model is asked for. kInvalidArgument or kNotFound, naming --draft-model or
// --speculate, when one of the two is missing, when the files of `target` or of the draft have
// layers that this kind of draft does not work with, or when their vocabularies differ. REQUIRES:
// `target` has its tokenizer.
Result<std::unique_ptr<files::ModelFiles>> OpenDraft(const files::ModelFiles& target,
                                                     const EngineOptions& options);

}  // namespace sluice::exec
