// Proposals: what drafts were drawn from, on the device, for verification by rejection. Views of
// memory that a proposer owns.
#pragma once

#include "ops/tensor.h"

namespace sluice::sample {

struct Proposals {
  // F32 [numbers * sequences, guesses]: of guess number n, from 1 on, of the sequence that guessed
  // as number i of its step, row (n - 1) * sequences + i has the logits. Those of the last step
  // that guessed stand there. Empty: drafts were not drawn.
  ops::Tensor logits;
  ops::Tensor guess_of;  // ops::Sample::Args::guess_of
};

}  // namespace sluice::sample
