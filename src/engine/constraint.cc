#include "engine/constraint.h"

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

Result<std::shared_ptr<const text::ChoiceSet>> Constraints::MakeChoices(
    std::vector<std::string> choices, std::span<const int32_t> prompt_tail) const {
  if (end_ids_.empty() || tokenizer_ == nullptr) {
    return InvalidArgument(
        "choice needs a model with a vocabulary and a token that ends an answer; send the request "
        "without choice",
        "choice");
  }
  const bool first = text::Detokenizer::StartsText(tokenizer_.get(), prompt_tail);
  return text::ChoiceSet::Make(std::move(choices), Trie(first), Trie(false));
}

bool Constraint::Go(int32_t id) {
  const text::Tokenizer& tokenizer = *model_.tokenizer_;
  const std::string bytes =
      first_ ? tokenizer.FirstPieceBytes(id, false) : tokenizer.PieceBytes(id, false);
  if (bytes.empty() || !walk_.Advance(bytes)) return false;
  first_ = false;
  ++drawn_;
  return true;
}

void Constraint::Take(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (!Go(id)) return;
  }
}

void Constraint::FillMask(std::span<uint32_t> allowed) const {
  walk_.AllowTokens(allowed);
  if (!walk_.complete() || (drawn_ < min_tokens_ && walk_.may_go_on())) return;
  for (const int32_t id : model_.end_ids_) {
    if (id < model_.vocab_) allowed[id / 32] |= 1u << (id % 32);
  }
}

void Constraint::FillMasks(std::span<const int32_t> drafts, std::vector<uint32_t>* words) const {
  const size_t row = (static_cast<size_t>(model_.vocab_) + 31) / 32;
  words->assign((drafts.size() + 1) * row, 0);
  const std::span<uint32_t> all(*words);
  FillMask(all.first(row));
  if (drafts.empty()) return;
  Constraint behind(model_, walk_, first_, min_tokens_, drawn_);
  for (size_t i = 0; i < drafts.size() && behind.Go(drafts[i]); ++i) {
    behind.FillMask(all.subspan((i + 1) * row, row));
  }
}

}  // namespace sluice::engine
