// An answer that is one of given texts: which tokens may come next. ChoiceSet: the texts, immutable
// after Make; any thread. ChoiceWalk: how far one answer has come; not thread-safe.
//
// Bytes decide, not the tokenizer's own way to cut a text: any tokens whose bytes make up a choice
// may be drawn. Making a set of n bytes takes O(n * longest token) steps at worst, and O(n) where
// single bytes are tokens; a mask takes O(choices * longest token).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_walk.h"
#include "text/token_trie.h"

namespace sluice::text {

class ChoiceSet {
 public:
  // `first`: the tokens that may begin the answer, `later`: those behind it. kInvalidArgument names
  // a choice that no tokens spell. REQUIRES: the choices are not empty, and each stands there once.
  static Result<std::shared_ptr<const ChoiceSet>> Make(std::vector<std::string> choices,
                                                       std::shared_ptr<const TokenTrie> first,
                                                       std::shared_ptr<const TokenTrie> later);

 private:
  friend class ChoiceWalk;

  // Whether tokens spell the rest of a choice behind its first `bytes` bytes.
  bool Leads(size_t choice, size_t bytes) const {
    return leads_[choices_[choice].leads + bytes] != 0;
  }
  bool FindLeads(size_t choice);
  bool SpellsRest(size_t choice, size_t bytes) const;

  struct Choice {
    std::string text;
    size_t leads = 0;  // where its part of `leads_` begins: one for each byte, and its end
  };
  std::vector<Choice> choices_;  // ascending by bytes
  std::vector<uint8_t> leads_;
  std::shared_ptr<const TokenTrie> first_, later_;
};

class ChoiceWalk : public AnswerWalk {
 public:
  // `starts_text`: the answer is the beginning of a text (Detokenizer::StartsText).
  ChoiceWalk(std::shared_ptr<const ChoiceSet> set, std::shared_ptr<const Tokenizer> tokenizer,
             bool starts_text);

  std::unique_ptr<AnswerWalk> Copy() const override { return std::make_unique<ChoiceWalk>(*this); }
  bool Go(TokenId id) override;
  void Back(int tokens) override { path_.resize(path_.size() - static_cast<size_t>(tokens)); }
  bool complete() const override;
  void AllowTokens(std::span<uint32_t> allowed) override;

 private:
  struct Place {
    size_t begin, end;  // the choices that are left
    size_t bytes;       // which they share, and the answer has
  };

  // Goes on by the bytes of a token.
  bool Advance(std::string_view bytes);
  // Of the set's choices from `begin` to `end`, which share their first `bytes` bytes, those whose
  // next byte is that of the first that is longer. `begin` is moved there.
  size_t GroupEnd(size_t* begin, size_t end, size_t bytes) const;

  const std::shared_ptr<const ChoiceSet> set_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool starts_text_;
  std::vector<Place> path_;  // behind each token, and at the beginning
};

}  // namespace sluice::text
