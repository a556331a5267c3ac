// Which drafts of a sequence are worth verifying where what may come instead of some of them is
// known, too: those that are most likely to be reached and right, whatever they follow. A tree
// then holds more of what is drawn than a chain of as many. The same of guesses of a head, which
// says of each how likely it is. For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sluice/limits.h"
#include "speculate/draft_length.h"

namespace sluice::speculate {

// A token that may come instead of one of a chain of drafts, or behind such a token.
struct Aside {
  int32_t token = 0;
  // What it follows: 0, the text; i, the i-th draft of the chain; or behind these in the same
  // numbers an earlier Aside.
  int32_t parent = 0;
};
inline constexpr int32_t kAsidesMax = 16;

// Drafts as batch/draft_tree.h has them: those of the chain come first.
struct DraftTree {
  int32_t count = 0;
  std::array<int32_t, limits::kDraftTokensMax> tokens = {}, parents = {};
};

// As many drafts, of `chain` and `asides`, as pay most at these costs, up to `room`. `costs`: null,
// and all are taken that there is room for. REQUIRES: room <= limits::kDraftTokensMax,
// asides.size() <= kAsidesMax.
DraftTree ChooseTree(std::span<const int32_t> chain, int32_t grade, std::span<const Aside> asides,
                     const Acceptance& acceptance, const DraftCosts* costs, int32_t room);

// A token that a head guesses, and how often it is expected to be right where `parent` is what was
// drawn: 0, the text's last token; i, the i-th of these nodes, which comes before it.
struct GuessedNode {
  int32_t token = 0;
  int32_t parent = 0;
  float right = 0.0F;  // 0: it is none
};
inline constexpr int32_t kGuessedNodesMax = 64;

// The same of nodes of which none is a chain from the start: the first branch of what is taken goes
// along the likeliest of it. REQUIRES: room as above, nodes.size() <= kGuessedNodesMax.
DraftTree ChooseNodes(std::span<const GuessedNode> nodes, const DraftCosts* costs, int32_t room);

// How far the probabilities can be relied on that a head gives its own guesses: a head that was
// trained on other texts is too sure of them. For one thread.
class GuessTrust {
 public:
  // How often a guess of this probability is expected to be right.
  float Right(float probability) const;
  // Guesses for one place were expected to be right so often, all together, and one was, or none.
  void Observe(float expected, bool right);

 private:
  float expected_ = 1.0F, right_ = 1.0F;  // in the mean
};

}  // namespace sluice::speculate
