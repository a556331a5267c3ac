// What holds an answer to given texts or to a grammar. Constraints: of a model, any thread.
// Constraint: of one answer, for its text worker.
//
// A constraint comes before all else that steers an answer: tokens that do not fit here are out,
// whatever their bias; ids that end an answer are drawn where it is complete, under ignore_eos too;
// and min_tokens keeps from ending only an answer that may go on.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/mask_board.h"
#include "sluice/engine.h"
#include "text/answer_walk.h"
#include "text/token_trie.h"

namespace sluice::engine {

class Constraints {
 public:
  // `vocab`: of the model's logits. `end_ids`: those that end an answer.
  Constraints(std::shared_ptr<const text::Tokenizer> tokenizer, int vocab,
              std::vector<int32_t> end_ids)
      : tokenizer_(std::move(tokenizer)), vocab_(vocab), end_ids_(std::move(end_ids)) {}

  // Begins `n` answers that are one of these texts, behind a prompt that ends with these ids.
  // kInvalidArgument when the model's tokens cannot answer so. The first call looks at the whole
  // vocabulary.
  Result<std::vector<std::unique_ptr<text::AnswerWalk>>> WalkChoices(
      std::vector<std::string> choices, std::span<const int32_t> prompt_tail, int n) const;

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
  Constraint(const Constraints& model, std::unique_ptr<text::AnswerWalk> walk, int min_tokens)
      : model_(model), walk_(std::move(walk)), min_tokens_(min_tokens) {}

  // Tokens that were drawn.
  void Take(std::span<const int32_t> ids);
  int32_t drawn() const { return drawn_; }
  // The masks of the next token and of that behind each draft. A draft that may not be drawn is
  // rejected, so that nothing is asked of those behind it.
  void FillMasks(std::span<const int32_t> drafts, std::vector<uint32_t>* words);
  // The answer may neither end nor go on behind what was drawn: the model has no token that fits.
  // It may then end, since something has to be drawn.
  bool stuck() const { return stuck_; }

  MaskBoard::Place place;

 private:
  // False when `id` cannot be drawn here.
  bool Go(int32_t id);
  // False: neither the end nor any token fits.
  bool FillMask(std::span<uint32_t> allowed);

  const Constraints& model_;
  const std::unique_ptr<text::AnswerWalk> walk_;
  const int min_tokens_;
  int32_t drawn_ = 0;
  bool stuck_ = false;
};

}  // namespace sluice::engine
