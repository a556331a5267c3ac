// Which drafts of a sequence are worth verifying where what may come instead of some of them is
// known, too: those that are most likely to be reached and right, whatever they follow. A tree
// then holds more of what is drawn than a chain of as many. For one thread.
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

}  // namespace sluice::speculate
