#include "speculate/draft_tree.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace sluice::speculate {
namespace {

constexpr int32_t kNodesMax = std::max(limits::kDraftTokensMax + kAsidesMax, kGuessedNodesMax);
// Of GuessTrust: of one more place, how far it goes, and what no guess is expected to pass.
constexpr float kTrustRate = 1.0F / 32, kTrustMax = 4.0F, kRightMax = 0.98F;

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
using Taken = std::array<bool, 1 + kNodesMax>;

// The likeliest first: none before what it follows, which is at least as likely.
Taken TakeLikeliest(const Nodes& nodes, const DraftCosts* costs, int32_t room) {
  Taken taken = {true}, best = {};
  float tokens = 1, most = kDraftGainMin;
  for (int32_t count = 1; count <= std::min(room, nodes.count - 1); ++count) {
    int32_t next = 0;
    for (int32_t i = 1; i < nodes.count; ++i) {
      if (taken[i] || !taken[nodes.parents[i]] || nodes.likely[i] <= 0) continue;
      if (next == 0 || nodes.likely[i] > nodes.likely[next]) next = i;
    }
    if (next == 0) break;
    taken[next] = true;
    tokens += nodes.likely[next];
    const float gain = costs == nullptr ? most + 1 : tokens / (1 + (*costs)[count - 1]);
    if (gain <= most) continue;
    most = gain;
    best = taken;
  }
  return best;
}

// Those of `order` that were taken, in this order, in which parents come first.
DraftTree Written(const Nodes& nodes, const Taken& taken, std::span<const int32_t> order) {
  DraftTree tree;
  std::array<int32_t, 1 + kNodesMax> numbers = {};
  for (const int32_t i : order) {
    if (!taken[i] || numbers[i] > 0) continue;
    tree.tokens[tree.count] = nodes.tokens[i];
    tree.parents[tree.count] = numbers[nodes.parents[i]];
    numbers[i] = ++tree.count;
  }
  return tree;
}

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
  std::array<int32_t, kNodesMax> order;
  std::iota(order.begin(), order.end(), 1);
  return Written(nodes, TakeLikeliest(nodes, costs, room),
                 std::span(order).first(static_cast<size_t>(nodes.count - 1)));
}

DraftTree ChooseNodes(std::span<const GuessedNode> guessed, const DraftCosts* costs, int32_t room) {
  CHECK(room <= limits::kDraftTokensMax && guessed.size() <= kGuessedNodesMax, "room=", room);
  Nodes nodes;
  for (const GuessedNode& node : guessed) {
    const bool fits = nodes.depths[node.parent] < limits::kDraftTokensMax;
    nodes.Add(node.token, node.parent, fits ? node.right : 0.0F);
  }
  const Taken taken = TakeLikeliest(nodes, costs, room);
  std::array<int32_t, kNodesMax + limits::kDraftTokensMax> order;
  size_t count = 0;
  for (int32_t at = 0, next = 0;; at = next, order[count++] = at) {
    next = 0;
    for (int32_t i = at + 1; i < nodes.count; ++i) {
      if (!taken[i] || nodes.parents[i] != at) continue;
      if (next == 0 || nodes.likely[i] > nodes.likely[next]) next = i;
    }
    if (next == 0) break;
  }
  for (int32_t i = 1; i < nodes.count; ++i) order[count++] = i;
  return Written(nodes, taken, std::span(order).first(count));
}

float GuessTrust::Right(float probability) const {
  const float trust = std::clamp(right_ / expected_, 1 / kTrustMax, kTrustMax);
  return std::min(trust * probability, kRightMax);
}

void GuessTrust::Observe(float expected, bool right) {
  expected_ += kTrustRate * (std::min(expected, 1.0F) - expected_);
  right_ += kTrustRate * ((right ? 1.0F : 0.0F) - right_);
  expected_ = std::max(expected_, kTrustRate);
}

}  // namespace sluice::speculate
