// Masks are late inputs: just before sampling, exec asks for the mask of each row. Implemented in
// engine/ over text/ (grammars). Called on the step thread only.
#pragma once

#include <cstdint>
#include <span>

#include "batch/plan.h"
#include "sluice/status.h"

namespace sluice::batch {

class MaskSource {
 public:
  virtual ~MaskSource() = default;
  // Whether `entry` restricts its tokens in this step.
  virtual bool HasMask(const PlanEntry& entry) = 0;
  // Fills `allowed`, bit i of word i / 32 is token i, for row `row` of the entry's logits rows.
  // REQUIRES: HasMask(entry); allowed.size() == (vocab + 31) / 32.
  virtual Status Fill(const PlanEntry& entry, int row, std::span<uint32_t> allowed) = 0;
};

}  // namespace sluice::batch
