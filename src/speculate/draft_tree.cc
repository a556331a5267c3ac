#include "speculate/draft_tree.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::speculate {
namespace {

constexpr int32_t kNodesMax = limits::kDraftTokensMax + kAsidesMax;

// By number as in Aside::parent; 0 is the text.
struct Nodes {
  int32_t count = 1;
  std::array<int32_t, 1 + kNodesMax> tokens = {}, parents = {}, depths = {};
  std::array<float, 1 + kNodesMax> likely = {1};  // to be drawn

  void Add(int32_t token, int32_t parent, float right) {
    tokens[count] = token;
    parents[count] = parent;
    depths[count] = depths[parent] + 1;
    likely[count++] = likely[parent] * right;
  }
};

}  // namespace

DraftTree ChooseTree(std::span<const int32_t> chain, int32_t grade, std::span<const Aside> asides,
                     const Acceptance& acceptance, const DraftCosts* costs, int32_t room) {
  CHECK(room <= limits::kDraftTokensMax && asides.size() <= kAsidesMax, "room=", room);
  Nodes nodes;
  const auto branch = static_cast<int32_t>(chain.size());
  for (int32_t i = 0; i < branch; ++i) {
    const bool contested = std::any_of(asides.begin(), asides.end(),
                                       [i](const Aside& aside) { return aside.parent == i; });
    nodes.Add(chain[i], i, contested ? acceptance.ContestedRight() : acceptance.Right(grade, i));
  }
  for (const Aside& aside : asides) {
    const int32_t place = nodes.depths[aside.parent];
    if (place >= limits::kDraftTokensMax) break;
    const bool instead = aside.parent < branch;
    nodes.Add(aside.token, aside.parent,
              instead ? acceptance.AsideRight() : acceptance.Right(grade, place));
  }
  // The likeliest first: none before what it follows, which is at least as likely.
  std::array<bool, 1 + kNodesMax> taken = {true}, best = {};
  float tokens = 1, most = kDraftGainMin;
  for (int32_t count = 1; count <= std::min(room, nodes.count - 1); ++count) {
    int32_t next = 0;
    for (int32_t i = 1; i < nodes.count; ++i) {
      if (taken[i] || !taken[nodes.parents[i]]) continue;
      if (next == 0 || nodes.likely[i] > nodes.likely[next]) next = i;
    }
    taken[next] = true;
    tokens += nodes.likely[next];
    const float gain = costs == nullptr ? most + 1 : tokens / (1 + (*costs)[count - 1]);
    if (gain <= most) continue;
    most = gain;
    best = taken;
  }
  DraftTree tree;
  std::array<int32_t, 1 + kNodesMax> numbers = {};
  for (int32_t i = 1; i < nodes.count; ++i) {
    if (!best[i]) continue;
    tree.tokens[tree.count] = nodes.tokens[i];
    tree.parents[tree.count] = numbers[nodes.parents[i]];
    numbers[i] = ++tree.count;
  }
  return tree;
}

}  // namespace sluice::speculate
