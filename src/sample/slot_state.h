// What the sampler remembers of one running sequence: its parameters and the tokens so far, counted
// for penalties. Owned by the sampler; step thread only.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "batch/plan.h"
#include "ops/sampling.h"

namespace sluice::sample {

class SlotState {
 public:
  void Start(const batch::SlotStart& start);
  // Appends a drawn token.
  void Append(int32_t token);
  // Takes back what was appended last (drafts that were tried for one row's edits).
  void RemoveLast();
  // Tokens that are being drawn (+1), or came, or will not come (-1).
  void Await(int32_t change) { awaited_ += change; }

  const batch::SamplingParams& params() const { return params_; }
  // Those that are being drawn included.
  int32_t drawn() const { return length_ - prompt_tokens_ + awaited_; }

  // Appends the edits of the next token's logits to `edits`, ids ascending, each once.
  void AppendEdits(int64_t vocab, std::vector<ops::LogitEdit>* edits) const;

 private:
  struct Count {
    int32_t total = 0;  // prompt and answer
    int32_t answer = 0;
  };
  bool NeedsCounts() const;
  bool NeedsHistory() const;
  void AppendNgramBans(std::vector<int32_t>* banned) const;

  batch::SamplingParams params_;
  int32_t prompt_tokens_ = 0;
  int32_t length_ = 0;                         // tokens so far, the prompt's included
  std::vector<int32_t> history_;               // kept only if a penalty or a ban needs them
  std::unordered_map<int32_t, Count> counts_;  // kept only if a penalty needs them
  int32_t awaited_ = 0;                        // drawn by steps in flight
};

}  // namespace sluice::sample
