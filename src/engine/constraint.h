// What holds an answer to given texts or to a grammar. Constraints: of a model, any thread.
// Constraint: of one answer, for its text worker.
//
// A constraint comes before all else that steers an answer: tokens that do not fit here are out,
// whatever their bias; ids that end an answer are drawn where it is complete, under ignore_eos too;
// and min_tokens keeps from ending only an answer that may go on.
//
// Where one text alone may follow, as between a value of JSON and the next name, its first token is
// the one that the tokenizer would cut, and no other: a model that has to write what it would not
// have written draws scraps of words otherwise, many tokens instead of few, and goes on from these.
// The last token of such a text is left open, since what comes behind may be a part of it, and so
// are those before it from which a token that fits reaches beyond the text.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/mask_board.h"
#include "sluice/engine.h"
#include "text/answer_walk.h"
#include "text/thinking_walk.h"
#include "text/token_trie.h"

namespace sluice::engine {

class Constraints {
 public:
  // `vocab`: of the model's logits. `end_ids`: those that end an answer.
  Constraints(std::shared_ptr<const text::Tokenizer> tokenizer, int vocab,
              std::vector<int32_t> end_ids)
      : tokenizer_(std::move(tokenizer)),
        vocab_(vocab),
        end_ids_(std::move(end_ids)),
        likely_end_(LikelyEnd()) {}

  // Begins `n` answers that are one of these texts. `starts_text`: Detokenizer::StartsText.
  // kInvalidArgument when the model's tokens cannot answer so. The first call looks at the whole
  // vocabulary.
  Result<std::vector<std::unique_ptr<text::AnswerWalk>>> WalkChoices(
      std::vector<std::string> choices, bool starts_text, int n) const;
  // The tags of the model's thinking, always the same. The first call looks at the whole
  // vocabulary.
  std::shared_ptr<const text::ThinkingTags> Thinking(std::string_view begin,
                                                     std::string_view end) const;

 private:
  friend class Constraint;
  std::shared_ptr<const text::TokenTrie> Trie(bool first) const;
  int32_t LikelyEnd() const;
  // text::ByteTokens, made by the first call.
  std::span<const text::TokenId> ByteTokens() const;

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const int vocab_;
  const std::vector<int32_t> end_ids_;
  const int32_t likely_end_;  // of these, the one that answers mostly end with; below 0: unknown
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const text::TokenTrie>
      tries_[2];  // guarded by mutex_; null: not made yet
  mutable std::shared_ptr<const text::ThinkingTags> thinking_;  // likewise
  mutable std::vector<text::TokenId> byte_tokens_;              // likewise; empty: not made yet
};

class Constraint {
 public:
  // `drawn`: tokens of the answer before those that the walk begins with. `passes_ends`: a token
  // that ends answers says nothing here, and the answer goes on as if it had not been drawn. A walk
  // that is null comes with Follow, before all else.
  Constraint(const Constraints& model, std::unique_ptr<text::AnswerWalk> walk, int min_tokens,
             int drawn = 0, bool passes_ends = false)
      : model_(model),
        walk_(std::move(walk)),
        min_tokens_(min_tokens),
        passes_ends_(passes_ends),
        drawn_(drawn) {}

  // Has come as far as `other`, of the same request, and goes on by itself.
  void Follow(const Constraint& other);
  // Tokens that were drawn.
  void Take(std::span<const int32_t> ids);
  int32_t drawn() const { return drawn_; }
  // The masks of the next token and of that behind each draft. A draft that may not be drawn is
  // rejected, so that nothing is asked of those behind it.
  void FillMasks(std::span<const int32_t> drafts, std::vector<uint32_t>* words);
  // Replaces *forced by what every answer that fits says next, in tokens, `most` at most, and fills
  // the masks as if these were drafts. All but the last are certain: their masks allow nothing
  // else.
  void FillMasksAhead(int most, std::vector<int32_t>* forced, std::vector<uint32_t>* words);
  // The answer may neither end nor go on behind what was drawn: the model has no token that fits.
  // It may then end, since something has to be drawn.
  bool stuck() const { return stuck_; }

  MaskBoard::Place place;

 private:
  // Tokens of which a copy takes as long as walking one again: 10 ns each, and 3 us
  // (constraint_bench.cc, AMD EPYC).
  static constexpr int kCopiedPerWalked = 256;

  // Follows without a copy, since a walk's copy takes the time and the memory of all that it has
  // gone by, and beams mostly have all but their last tokens in common: goes back to where they
  // part. False, and somewhere on the way: that would take longer, or cannot be done.
  bool Rejoin(const Constraint& other);
  // False when `id` cannot be drawn here.
  bool Go(int32_t id);
  // Takes back all that came behind `drawn` tokens.
  void BackTo(int32_t drawn);
  // Text that must follow, as far as it was looked for.
  struct Ahead {
    std::string text;
    bool ends = false;  // behind it there are several ways to go on
    // Goes on by a token that was drawn.
    void Pass(std::string_view bytes);
  };
  // Completes it, up to kAheadBytes. `mask`: of the token that comes next.
  void LookAhead(std::span<const uint32_t> mask, Ahead* ahead);
  // Appends the mask of the token that comes next to *words; gives whether any fits.
  bool AddMask(Ahead* ahead, std::vector<uint32_t>* words);
  // The token that comes where this mask holds, certainly or as the tokenizer would have it; below
  // 0: there are several ways to go on.
  int32_t Forced(std::span<const uint32_t> allowed, const Ahead& ahead) const;
  std::string Bytes(int32_t id) const;
  bool Ends(int32_t id) const;
  // False: neither the end nor any token fits.
  bool FillMask(std::span<uint32_t> allowed);

  const Constraints& model_;
  std::unique_ptr<text::AnswerWalk> walk_;
  const int min_tokens_;
  const bool passes_ends_;
  int32_t drawn_;
  std::vector<int32_t> gone_;      // of the tokens that were drawn, those that the walk has gone by
  Ahead ahead_;                    // behind these
  std::vector<uint32_t> scratch_;  // a mask
  bool stuck_ = false;
  // A token that was drawn does not fit, or took too long to follow: nothing fits behind it.
  bool lost_ = false;
};

// kInvalidArgument: what the request holds its answer to has no token with which it could begin, or
// go on, as `where` says.
Status NothingFits(const Request& request, std::string_view where);

}  // namespace sluice::engine
