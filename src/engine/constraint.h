// What holds an answer to given texts. Constraints: of a model, any thread. Constraint: of one
// answer, for its text worker.
//
// A constraint comes before all else that steers an answer: tokens that no choice has here are out,
// whatever their bias; ids that end an answer are drawn where a choice is complete, under
// ignore_eos too; and min_tokens keeps from ending only a choice that another continues.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/mask_board.h"
#include "sluice/engine.h"
#include "text/choice.h"

namespace sluice::engine {

class Constraints {
 public:
  // `vocab`: of the model's logits. `end_ids`: those that end an answer.
  Constraints(std::shared_ptr<const text::Tokenizer> tokenizer, int vocab,
              std::vector<int32_t> end_ids)
      : tokenizer_(std::move(tokenizer)), vocab_(vocab), end_ids_(std::move(end_ids)) {}

  // Answers that are one of these texts, behind a prompt that ends with these ids. kInvalidArgument
  // when the model's tokens cannot answer so. The first call looks at the whole vocabulary.
  Result<std::shared_ptr<const text::ChoiceSet>> MakeChoices(
      std::vector<std::string> choices, std::span<const int32_t> prompt_tail) const;

 private:
  friend class Constraint;
  std::shared_ptr<const text::TokenTrie> Trie(bool first) const;

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const int vocab_;
  const std::vector<int32_t> end_ids_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const text::TokenTrie>
      tries_[2];  // guarded by mutex_; null: not made yet
};

class Constraint {
 public:
  Constraint(const Constraints& model, std::shared_ptr<const text::ChoiceSet> choices,
             bool starts_text, int min_tokens)
      : model_(model), walk_(std::move(choices)), first_(starts_text), min_tokens_(min_tokens) {}

  // Tokens that were drawn.
  void Take(std::span<const int32_t> ids);
  int32_t drawn() const { return drawn_; }
  // The masks of the next token and of that behind each draft. A draft that may not be drawn is
  // rejected, so that nothing is asked of those behind it.
  void FillMasks(std::span<const int32_t> drafts, std::vector<uint32_t>* words) const;

  MaskBoard::Place place;

 private:
  Constraint(const Constraints& model, text::ChoiceWalk walk, bool first, int min_tokens,
             int32_t drawn)
      : model_(model),
        walk_(std::move(walk)),
        first_(first),
        min_tokens_(min_tokens),
        drawn_(drawn) {}
  // False when `id` cannot be drawn here.
  bool Go(int32_t id);
  void FillMask(std::span<uint32_t> allowed) const;

  const Constraints& model_;
  text::ChoiceWalk walk_;
  bool first_;  // the next token is the first of a text
  const int min_tokens_;
  int32_t drawn_ = 0;
};

}  // namespace sluice::engine
