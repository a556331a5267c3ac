#include "batch/mask_set.h"

#include <algorithm>

#include "base/str_cat.h"

namespace sluice::batch {

void WaitingRows(const BatchPlan& plan, std::vector<int32_t>* rows) {
  rows->clear();
  for (const PlanEntry& entry : plan.entries) {
    if (!entry.masked) continue;
    for (int32_t row = entry.logits_begin; row < entry.logits_begin + entry.logits_count; ++row) {
      if (plan.logits_rows[row].purpose != RowPurpose::kScore) rows->push_back(row);
    }
  }
}

Status CheckMasks(const MaskSet& masks, const std::vector<int32_t>& waiting, int64_t vocab) {
  if (masks.rows != waiting) {
    return InvalidArgument(StrCat("the masks are those of ", masks.rows.size(),
                                  " rows, which are not the ", waiting.size(), " that wait"));
  }
  if (masks.words.size() != masks.rows.size() * MaskWords(vocab)) {
    return InvalidArgument(StrCat("the masks of ", masks.rows.size(), " rows have ",
                                  masks.words.size(), " words; a row has ", MaskWords(vocab)));
  }
  const auto falls = std::adjacent_find(masks.late.begin(), masks.late.end(), std::greater_equal{});
  if (falls != masks.late.end() ||
      !std::includes(masks.rows.begin(), masks.rows.end(), masks.late.begin(), masks.late.end())) {
    return InvalidArgument("the late rows are not ascending ones of those that have a mask");
  }
  const auto is_late = [&](int32_t row) {
    return std::binary_search(masks.late.begin(), masks.late.end(), row);
  };
  const auto sinks =
      std::adjacent_find(masks.replaced.begin(), masks.replaced.end(), std::greater_equal{});
  if (sinks != masks.replaced.end() ||
      !std::includes(masks.rows.begin(), masks.rows.end(), masks.replaced.begin(),
                     masks.replaced.end()) ||
      std::any_of(masks.replaced.begin(), masks.replaced.end(), is_late)) {
    return InvalidArgument(
        "the rows with other logits are not ascending ones of those that have a mask in time");
  }
  if (masks.logits.size() != masks.replaced.size() * static_cast<size_t>(vocab)) {
    return InvalidArgument(StrCat("the logits of ", masks.replaced.size(), " rows are ",
                                  masks.logits.size(), "; a row has ", vocab));
  }
  return OkStatus();
}

}  // namespace sluice::batch
