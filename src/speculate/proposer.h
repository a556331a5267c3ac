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
#include "speculate/draft_tree.h"

namespace sluice::speculate {

// What is known of a sequence when it begins.
struct Opening {
  int32_t tokens_max = 0;  // that its text will have
  // Stands for the API key, or for whatever else the client shares its prompts' KV by: what one key
  // wrote is shown to no other.
  uint64_t key = 0;
  int32_t quoted = 0;  // tokens at the text's beginning that the client expects in the answer
};

struct Draft {
  int32_t count = 0;
  int32_t grade = 0;  // 0 to kDraftGrades - 1; a larger one is more likely to be right
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  // Another sequence has `slot` from now on.
  // REQUIRES: 0 <= slot < ProposerLimits::slots, 0 < tokens_max.
  virtual void Start(int32_t slot, const Opening& opening) = 0;
  // Writes what the sequence in `slot` may draw next into *drafts, as many tokens as it likes.
  // `tokens`: its text, which is what it quotes, its prompt, and its answer as far as it is
  // committed; those of the call before for this slot come first.
  virtual Draft Propose(int32_t slot, std::span<const int32_t> tokens,
                        std::span<int32_t> drafts) = 0;
  // Writes what may come instead of drafts that Propose has given for `slot` into *asides, those of
  // earlier places first, and returns their number. To be called behind a Propose that gave some.
  virtual int32_t ProposeAside(int32_t slot, std::span<Aside> asides);
  // The sequence in `slot` has ended with `tokens`, from which others may learn. True when all is
  // learned; else it wants to be called again, with the same.
  virtual bool End(int32_t slot, std::span<const int32_t> tokens);
};

struct ProposerLimits {
  int32_t slots = 0;       // sequences that run at once
  int32_t tokens_max = 0;  // of a sequence's text
};

// kInvalidArgument unless `name` is one that --speculate takes.
Status CheckProposer(std::string_view name);
// The same for what --speculate-verify takes.
Status CheckVerification(std::string_view name);
// Whether the drafts of what has this name come from the runner: by a head or a second model.
bool MadeByRunner(std::string_view name);
// Null for "none", and where the runner makes the drafts. REQUIRES: CheckProposer(name) is ok, and
// it is decided what "auto" is.
std::unique_ptr<Proposer> MakeProposer(std::string_view name, const ProposerLimits& limits);

}  // namespace sluice::speculate
