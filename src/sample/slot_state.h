// What the sampler remembers of one running sequence: its parameters and the tokens so far, counted
// for penalties unless the device does that. Owned by the sampler; step thread only.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "batch/plan.h"
#include "ops/sampling.h"

namespace sluice::sample {

class SlotState {
 public:
  // `device_counts`: the device has room for counts of this slot.
  void Start(const batch::SlotStart& start, bool device_counts);
  // Appends a drawn token.
  void Append(int32_t token);
  // Takes back what was appended last (drafts that were tried for one row's edits).
  void RemoveLast();
  // Tokens that are being drawn (+1), or came, or will not come (-1).
  void Await(int32_t change) { awaited_ += change; }

  const batch::SamplingParams& params() const { return params_; }
  // Those that are being drawn included.
  int32_t drawn() const { return length_ - prompt_tokens_ + awaited_; }
  int32_t awaited() const { return awaited_; }

  // Its penalties are the device's work: none of them is among the edits.
  bool counts_on_device() const { return counts_on_device_; }
  // The device's counts are to be set whole: at the start, and after a step came to nothing, of
  // which nobody knows what it has counted.
  bool counts_lost() const { return counts_lost_; }
  void LoseCounts() { counts_lost_ = true; }
  void SetCounts() { counts_lost_ = false; }
  // Appends the words of all ids so far, as ops::SetCounts takes them. `tally` has a zero for each
  // id of the vocabulary, before and after.
  void AppendCounts(std::span<uint32_t> tally, std::vector<int32_t>* words) const;

  // Appends the edits of the next token's logits to `edits`, ids ascending, each once. `row` has
  // the slot's parameters.
  void AppendEdits(int64_t vocab, const ops::SampleRow& row,
                   std::vector<ops::LogitEdit>* edits) const;

 private:
  bool CountsHere() const { return batch::HasPenalties(params_) && !counts_on_device_; }
  bool NeedsHistory() const { return batch::HasPenalties(params_) || params_.no_repeat_ngram > 0; }
  void AppendNgramBans(std::vector<int32_t>* banned) const;

  batch::SamplingParams params_;
  int32_t prompt_tokens_ = 0;
  int32_t length_ = 0;  // tokens so far, the prompt's included
  bool counts_on_device_ = false, counts_lost_ = false;
  std::vector<int32_t> history_;                  // kept only if a penalty or a ban needs them
  std::unordered_map<int32_t, uint32_t> counts_;  // words of counts; kept only if CountsHere
  int32_t awaited_ = 0;                           // drawn by steps in flight
};

}  // namespace sluice::sample
