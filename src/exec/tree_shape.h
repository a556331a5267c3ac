// TreeShape: how large the trees are that something on the device guesses. Any thread.
#pragma once

namespace sluice::exec {

// Of trees of guesses. Nodes of a depth that a pass computes, and tokens that are taken behind each
// of them; no beams: guesses are chains.
struct TreeShape {
  int beams = 0, children = 0;

  // Nodes of a sequence, of so many depths.
  int Nodes(int depths) const { return children * (1 + beams * (depths - 1)); }
  // Places behind those of a chain of so many guesses that their KV may take.
  int Spare(int depths) const { return beams == 0 ? 0 : (beams - 1) * depths; }
};
// Of what guesses token by token, and of what computes all depths in one pass, where a depth is the
// same behind every node. A step verifies 8 drafts at most, of which few stand behind others than
// the likeliest.
inline constexpr TreeShape kGuessTree = {.beams = 2, .children = 3};
inline constexpr TreeShape kBlockTree = {.beams = 1, .children = 3};

}  // namespace sluice::exec
