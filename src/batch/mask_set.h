// MaskSet: which tokens the rows of a launched step may draw, and logits that others than the model
// give. A plan says which of its rows wait
// for a mask (PlanEntry::masked); the masks follow when the model is at work already, since what a
// row may draw depends on the tokens of the step before. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batch/plan.h"
#include "sluice/status.h"

namespace sluice::batch {

// Words of one mask: bit i of word i / 32 is token i, set where it may be drawn.
constexpr size_t MaskWords(int64_t vocab) { return static_cast<size_t>((vocab + 31) / 32); }

struct MaskSet {
  std::vector<int32_t> rows;    // logits rows of the plan: all that wait (WaitingRows)
  std::vector<uint32_t> words;  // [rows, MaskWords(vocab)]
  // Those of `rows` whose mask is not ready, ascending. They draw nothing, whatever their words
  // are, nor do the rows of their entry behind them.
  std::vector<int32_t> late;
  // Those of `rows`, ascending and none of them late, whose logits are others than the model's, and
  // these, [replaced, vocab]: what is drawn and told of the row comes from them.
  std::vector<int32_t> replaced;
  std::vector<float> logits;
};

// The logits rows of an entry that draw wait for a mask if the entry is masked. Ascending; *rows is
// overwritten.
void WaitingRows(const BatchPlan& plan, std::vector<int32_t>* rows);

// kInvalidArgument when the set does not give a mask for each of the rows that wait, and no other.
// `waiting`: what WaitingRows gave of the plan.
Status CheckMasks(const MaskSet& masks, const std::vector<int32_t>& waiting, int64_t vocab);

}  // namespace sluice::batch
