// Drafts of a sequence in a step that are a tree: draft number i, from 1 on, follows draft
// parents[i - 1], which is an earlier one; 0 is the token before all of them. Those at the
// beginning that each follow the one before are the first branch; what comes behind it is aside of
// it. The KV of draft i goes where that of the i-th token behind the root would, wherever it
// stands.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "batch/plan.h"
#include "sluice/limits.h"

namespace sluice::batch {

// By number, the root's included: how many drafts lead to it, itself included.
using DraftDepths = std::array<int32_t, 1 + limits::kDraftTokensMax>;

inline bool IsTree(std::span<const int32_t> parents) {
  for (size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] < 0 || parents[i] > static_cast<int32_t>(i)) return false;
  }
  return parents.size() <= limits::kDraftTokensMax;
}

// REQUIRES: IsTree(parents), here and below.
inline int32_t FirstBranch(std::span<const int32_t> parents) {
  int32_t count = 0;
  while (count < static_cast<int32_t>(parents.size()) && parents[count] == count) ++count;
  return count;
}

// What the drafts of an entry follow; nothing where it has no tree. REQUIRES: the plan has so many.
inline std::span<const int32_t> ParentsOf(const BatchPlan& plan, const PlanEntry& entry) {
  if (entry.tree < 0) return {};
  return std::span(plan.parents).subspan(entry.tree, entry.logits_count - 1);
}
// Index into BatchPlan::tokens of the token before all drafts of an entry that has a tree.
inline int32_t RootOf(const PlanEntry& entry) {
  return entry.token_begin + entry.query_tokens - entry.logits_count;
}

inline DraftDepths Depths(std::span<const int32_t> parents) {
  DraftDepths depths = {};
  for (size_t i = 0; i < parents.size(); ++i) depths[i + 1] = depths[parents[i]] + 1;
  return depths;
}

}  // namespace sluice::batch
