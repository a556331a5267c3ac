// What guesses tokens on the device behind the steps of an executor, as far as the memory plan
// asks: Executor::MakeProposer makes it. Any thread.
#pragma once

#include "exec/executor.h"

namespace sluice::exec {

// Device memory that it takes, without its weights and workspace: heads of the model, if `options`
// say that there are some, and what guesses beside it.
size_t ProposerBytes(const files::ModelConfig& config, const model::ModelOptions& options,
                     int max_num_seqs, const DraftOf& draft);

}  // namespace sluice::exec
