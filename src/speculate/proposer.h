// Proposer: guesses what running sequences draw next, from the tokens that are committed. A guess
// costs time when it is wrong and never changes an answer: a step verifies it. For one thread.
//
// A sequence is known by its sampler slot. One that was preempted begins again, maybe in another
// slot. A proposer keeps what it learns in memory that is bounded from the start, and may give no
// drafts at all while it learns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sluice/status.h"

namespace sluice::speculate {

class Proposer {
 public:
  virtual ~Proposer() = default;
  // Another sequence has `slot` from now on; it will have at most `tokens_max` tokens.
  // REQUIRES: 0 <= slot < ProposerLimits::slots.
  virtual void Start(int32_t slot, int32_t tokens_max) = 0;
  // Writes what the sequence in `slot` may draw next into *drafts, as many tokens as it likes, and
  // returns their number. `tokens`: its prompt and answer as far as they are committed; those of
  // the call before for this slot come first.
  virtual int32_t Propose(int32_t slot, std::span<const int32_t> tokens,
                          std::span<int32_t> drafts) = 0;
};

struct ProposerLimits {
  int32_t slots = 0;       // sequences that run at once
  int32_t tokens_max = 0;  // of a sequence
};

// kInvalidArgument unless `name` is one that --speculate takes.
Status CheckProposer(std::string_view name);
// Null for "none". REQUIRES: CheckProposer(name) is ok.
std::unique_ptr<Proposer> MakeProposer(std::string_view name, const ProposerLimits& limits);

}  // namespace sluice::speculate
