#include "sample/slot_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ops/sampling_rules.h"

namespace sluice::sample {
namespace {

// Counts a token in its id's word.
void Count(bool answer, uint32_t* word) { *word = answer ? *word + 1 : *word | ops::kInPrompt; }

}  // namespace

void SlotState::Start(const batch::SlotStart& start, bool device_counts) {
  params_ = start.sampling;
  prompt_tokens_ = start.prompt_tokens;
  counts_on_device_ = counts_lost_ = device_counts && batch::HasPenalties(params_);
  counts_.clear();
  history_.clear();
  length_ = awaited_ = 0;
  if (!NeedsHistory()) {
    length_ = static_cast<int32_t>(start.history.size());
    return;
  }
  for (int32_t token : start.history) Append(token);
}

void SlotState::Append(int32_t token) {
  const bool answer = length_ >= prompt_tokens_;
  ++length_;
  if (!NeedsHistory()) return;
  history_.push_back(token);
  if (CountsHere()) Count(answer, &counts_[token]);
}

void SlotState::RemoveLast() {
  CHECK(length_ > prompt_tokens_, "length=", length_);
  --length_;
  if (!NeedsHistory()) return;
  const int32_t token = history_.back();
  history_.pop_back();
  if (!CountsHere()) return;
  const auto found = counts_.find(token);
  if (--found->second == 0) counts_.erase(found);
}

void SlotState::AppendCounts(std::span<uint32_t> tally, std::vector<int32_t>* words) const {
  const size_t begin = words->size();
  const auto inside = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < tally.size(); };
  for (size_t i = 0; i < history_.size(); ++i) {
    const int32_t id = history_[i];
    if (!inside(id)) continue;
    if (tally[id] == 0) words->insert(words->end(), {id, 0});
    Count(i >= static_cast<size_t>(prompt_tokens_), &tally[id]);
  }
  for (size_t i = begin; i < words->size(); i += 2) {
    (*words)[i + 1] = static_cast<int32_t>(std::exchange(tally[(*words)[i]], 0));
  }
}

void SlotState::AppendNgramBans(std::vector<int32_t>* banned) const {
  const int64_t n = params_.no_repeat_ngram;
  const int64_t size = static_cast<int64_t>(history_.size());
  if (n <= 0 || size < n) return;
  const auto prefix = history_.end() - (n - 1);
  for (int64_t start = 0; start + n <= size; ++start) {
    if (std::equal(prefix, history_.end(), history_.begin() + start)) {
      banned->push_back(history_[start + n - 1]);
    }
  }
}

void SlotState::AppendEdits(int64_t vocab, const ops::SampleRow& row,
                            std::vector<ops::LogitEdit>* edits) const {
  const size_t begin = edits->size();
  const auto add = [&](int32_t id) -> ops::LogitEdit& {
    edits->push_back({.id = id});
    return edits->back();
  };
  for (const auto& [id, bias] : params_.logit_bias) add(id).bias = bias;
  for (const auto& [id, count] : counts_) ops::AddPenalties(row, count, &add(id));
  const bool early = !params_.MayEnd(drawn());
  if (edits->size() == begin && params_.no_repeat_ngram <= 0 && !early) return;
  std::vector<int32_t> banned;
  AppendNgramBans(&banned);
  if (early) {
    banned.insert(banned.end(), params_.end_ids.begin(), params_.end_ids.end());
  }
  for (int32_t id : banned) add(id).banned = true;

  // Ids that a request named but the vocabulary lacks are ignored; parts of one id are joined.
  const auto first = edits->begin() + static_cast<int64_t>(begin);
  edits->erase(std::remove_if(first, edits->end(),
                              [&](const ops::LogitEdit& e) { return e.id < 0 || e.id >= vocab; }),
               edits->end());
  const auto by_id = [](const ops::LogitEdit& a, const ops::LogitEdit& b) { return a.id < b.id; };
  std::stable_sort(edits->begin() + static_cast<int64_t>(begin), edits->end(), by_id);
  size_t out = begin;
  for (size_t i = begin; i < edits->size(); ++i) {
    const ops::LogitEdit edit = (*edits)[i];
    if (out > begin && (*edits)[out - 1].id == edit.id) {
      ops::LogitEdit& joined = (*edits)[out - 1];
      joined.bias += edit.bias;
      joined.repetition *= edit.repetition;
      joined.subtract += edit.subtract;
      joined.banned |= edit.banned;
    } else {
      (*edits)[out++] = edit;
    }
  }
  edits->resize(out);
}

}  // namespace sluice::sample
