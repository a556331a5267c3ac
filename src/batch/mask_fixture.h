// For tests: masks made by a function, for the rows of plans made by hand.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "batch/mask_set.h"

namespace sluice::batch {

struct TestMasks {
  // Fills the mask of row `row` of the entry's rows, those that draw nothing counted; `allowed` is
  // all zeros. False: the mask is late.
  std::function<bool(const PlanEntry&, int row, std::span<uint32_t> allowed)> fill;
  std::function<bool(const PlanEntry&)> has = [](const PlanEntry&) { return true; };
};

// One that allows these tokens, everywhere.
inline TestMasks Allowing(std::vector<int32_t> ids) {
  return {.fill = [ids = std::move(ids)](const PlanEntry&, int, std::span<uint32_t> allowed) {
    for (const int32_t id : ids) allowed[id / 32] |= 1u << (id % 32);
    return true;
  }};
}
// One that allows all tokens but this.
inline TestMasks Banning(int32_t id) {
  return {.fill = [id](const PlanEntry&, int, std::span<uint32_t> allowed) {
    std::fill(allowed.begin(), allowed.end(), ~0u);
    allowed[id / 32] &= ~(1u << (id % 32));
    return true;
  }};
}

inline void MarkMasked(const TestMasks& masks, BatchPlan* plan) {
  for (PlanEntry& entry : plan->entries) entry.masked = masks.has(entry);
}

inline MaskSet MasksOf(const TestMasks& masks, const BatchPlan& plan, int64_t vocab) {
  MaskSet set;
  WaitingRows(plan, &set.rows);
  const size_t words = MaskWords(vocab);
  set.words.resize(set.rows.size() * words);
  for (size_t i = 0; i < set.rows.size(); ++i) {
    const int32_t row = set.rows[i];
    const auto entry = std::find_if(plan.entries.begin(), plan.entries.end(), [&](const auto& e) {
      return row >= e.logits_begin && row < e.logits_begin + e.logits_count;
    });
    const std::span<uint32_t> allowed(set.words.data() + i * words, words);
    if (!masks.fill(*entry, row - entry->logits_begin, allowed)) set.late.push_back(row);
  }
  return set;
}

}  // namespace sluice::batch
