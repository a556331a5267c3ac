#include "engine/constraint.h"

#include <algorithm>

#include "text/choice.h"
#include "text/detokenizer.h"

namespace sluice::engine {

std::shared_ptr<const text::TokenTrie> Constraints::Trie(bool first) const {
  std::lock_guard lock(mutex_);
  auto& trie = tries_[first ? 1 : 0];
  if (trie == nullptr) {
    trie = std::make_shared<const text::TokenTrie>(
        text::TokenTrie::Make(*tokenizer_, vocab_, end_ids_, first));
  }
  return trie;
}

Result<std::vector<std::unique_ptr<text::AnswerWalk>>> Constraints::WalkChoices(
    std::vector<std::string> choices, std::span<const int32_t> prompt_tail, int n) const {
  if (end_ids_.empty() || tokenizer_ == nullptr) {
    return InvalidArgument(
        "choice needs a model with a vocabulary and a token that ends an answer; send the request "
        "without choice",
        "choice");
  }
  const bool first = text::Detokenizer::StartsText(tokenizer_.get(), prompt_tail);
  SLUICE_ASSIGN_OR_RETURN(const auto set,
                          text::ChoiceSet::Make(std::move(choices), Trie(first), Trie(false)));
  std::vector<std::unique_ptr<text::AnswerWalk>> walks;
  for (int i = 0; i < n; ++i) {
    walks.push_back(std::make_unique<text::ChoiceWalk>(set, tokenizer_, first));
  }
  return walks;
}

bool Constraint::Go(int32_t id) {
  const auto& ends = model_.end_ids_;
  if (std::find(ends.begin(), ends.end(), id) != ends.end() || !walk_->Go(id)) return false;
  ++drawn_;
  return true;
}

void Constraint::Take(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (!Go(id)) return;
  }
}

bool Constraint::FillMask(std::span<uint32_t> allowed) {
  walk_->AllowTokens(allowed);
  const bool goes_on =
      std::any_of(allowed.begin(), allowed.end(), [](uint32_t word) { return word != 0; });
  const bool complete = walk_->complete();
  if (goes_on && (!complete || drawn_ < min_tokens_)) return true;
  for (const int32_t id : model_.end_ids_) {
    if (id < model_.vocab_) allowed[id / 32] |= 1u << (id % 32);
  }
  return goes_on || complete;
}

void Constraint::FillMasks(std::span<const int32_t> drafts, std::vector<uint32_t>* words) {
  const size_t row = (static_cast<size_t>(model_.vocab_) + 31) / 32;
  words->assign((drafts.size() + 1) * row, 0);
  const std::span<uint32_t> all(*words);
  stuck_ = !FillMask(all.first(row));
  const int32_t drawn = drawn_;
  for (size_t i = 0; i < drafts.size() && Go(drafts[i]); ++i) {
    FillMask(all.subspan((i + 1) * row, row));
  }
  walk_->Back(drawn_ - drawn);
  drawn_ = drawn;
}

}  // namespace sluice::engine
