// Answers that think before what they are held to. ThinkingTags: of a model, immutable, any thread.
// ThinkingWalk: of one answer.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_walk.h"
#include "text/tokenizer.h"

namespace sluice::text {

// The tags around a model's thinking, as its tokens have them.
class ThinkingTags {
 public:
  // `vocab`: of the model's logits. `answer_ends`: ids that end an answer. Looks at the whole
  // vocabulary.
  ThinkingTags(std::shared_ptr<const Tokenizer> tokenizer, int vocab,
               std::vector<TokenId> answer_ends, std::string_view begin, std::string_view end);

  // The tag that opens thinking as one token; below 0: it is several.
  TokenId begin_id() const { return begin_id_; }
  // How the tag that closes it is written; empty: no tokens spell it.
  const std::vector<TokenId>& end_ids() const { return end_ids_; }
  // Tokens of white space alone.
  const std::vector<TokenId>& space_ids() const { return space_ids_; }

  // Reads a token behind `*tail`, the last bytes of the thinking so far. True: it closes the
  // thinking. Then nothing but white space stands in the token behind the tag, or Overshoots is
  // true.
  bool Closes(TokenId id, std::string* tail) const;
  // Sets the bit of each token but those that end an answer.
  void AllowAll(std::span<uint32_t> allowed) const;
  // Tokens that close the thinking and have more behind the tag, behind this tail.
  std::vector<TokenId> Overshoots(std::string_view tail) const;

 private:
  // A token with the end of the tag in it, of which so many bytes have to stand before it, and with
  // more than white space behind that.
  struct Overshoot {
    TokenId id;
    size_t before;
  };

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const int vocab_;
  const std::vector<TokenId> answer_ends_;
  const std::string end_;
  TokenId begin_id_ = -1;
  std::vector<TokenId> end_ids_, space_ids_;
  std::vector<Overshoot> overshoots_;
};

class ThinkingWalk : public AnswerWalk {
 public:
  struct Options {
    bool opened = false;                         // the prompt has opened the thinking
    std::optional<int> tokens_max;               // of the thinking, behind which its tag is drawn
    const std::atomic<bool>* end_now = nullptr;  // has its tag drawn once this is true; may be null
    bool may_end = true;  // of a free answer: it may end (Request::ignore_eos)
  };
  // `start`: walks an answer without thinking, where it may have none. `behind`: one behind its
  // thinking. Null, both: the answer is free.
  ThinkingWalk(std::shared_ptr<const ThinkingTags> tags, Options options,
               std::unique_ptr<AnswerWalk> start, std::unique_ptr<AnswerWalk> behind);

  std::unique_ptr<AnswerWalk> Copy() const override;
  bool Go(TokenId id) override;
  void Back(int tokens) override;
  bool complete() const override;
  void AllowTokens(std::span<uint32_t> allowed) override;

 private:
  enum class At {
    kStart,     // nothing has come: thinking may begin, or the answer
    kThinking,  // the tag that closes it has not come
    kBehind,    // white space may come before the answer
    kAnswer,
  };
  struct State {
    At at = At::kStart;
    bool thought = false;
    int spaces = 0;      // tokens of white space behind the thinking
    int thinking = 0;    // tokens
    size_t closing = 0;  // of the closing tag's tokens, that came last
    std::string tail;    // of the thinking: too few bytes to close it
    int answered = 0;    // tokens that the answer's walk has gone on by
  };

  AnswerWalk* answer(const State& state) const {
    return state.thought ? behind_.get() : start_.get();
  }
  bool GoAnswer(TokenId id, State* next);
  // Nothing but the tag that closes the thinking may come.
  bool MustClose() const;

  const std::shared_ptr<const ThinkingTags> tags_;
  const Options options_;
  const bool free_;
  const std::unique_ptr<AnswerWalk> start_, behind_;
  State state_;
  std::vector<State> before_;  // each token that may be taken back
};

}  // namespace sluice::text
