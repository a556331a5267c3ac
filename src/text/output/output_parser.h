// OutputParser: takes one answer's text apart into thinking, text and calls of tools, as it comes.
// What it makes of a text does not depend on how that is cut. One per answer; not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/output/answer_parts.h"
#include "text/output/call_parser.h"
#include "text/output/marker.h"

namespace sluice::text {

// Tags around what a model thinks before it answers.
struct ThinkTags {
  std::string_view begin, end;
};

class OutputParser {
 public:
  // `calls`: null where none are wanted. `tags`: null where no thinking is told apart by tags;
  // outlives the parser. `thinking`: the prompt has opened them. `cut`: a mark of calls that ends
  // the thinking, too; empty: none does.
  OutputParser(AnswerParts parts, std::unique_ptr<CallParser> calls, const ThinkTags* tags,
               bool thinking, std::string_view cut);

  // The prompt's end is the beginning of the answer, this text. What it says is told nobody again,
  // but for a call that is open at its end: that is told whole, behind the next piece. `alone`: all
  // that another parser makes of an answer that is this text. REQUIRES: no piece has come
  void Begin(std::string_view text, const TextDelta& alone);
  // Adds to text, reasoning and tool_calls of `delta` what is certain behind this piece.
  void Add(std::string_view piece, TextDelta* delta);
  // The answer ends here; nothing is held back any more.
  void Finish(TextDelta* delta);
  bool called() const { return parts_.calls() > 0; }
  // Within the thinking; behind it, or where there is none.
  bool thinks() const { return state_ == State::kThinking; }
  bool answers() const { return state_ == State::kAnswer; }
  // All that is wanted has come: the one call.
  bool done() const { return parts_.wanted().one_call && called() && !parts_.in_call(); }

 private:
  enum class State {
    kStart,     // nothing but white space has come
    kThinking,  // within the tags
    kAnswer,    // behind them, or without any
  };
  void Take(std::string_view piece, TextDelta* delta);
  void End(TextDelta* delta);
  // What `work` adds to `delta`, without what is known, and with the open call of the prompt.
  template <class Work>
  void Tell(TextDelta* delta, const Work& work);
  bool Step(TextDelta* delta);
  void Answer(std::string_view piece, TextDelta* delta);

  const std::unique_ptr<CallParser> calls_;
  const ThinkTags* const tags_;
  const std::string_view cut_;
  AnswerParts parts_;
  State state_;
  PendingText pending_;
  // Of the prompt's end: what it holds that may turn out to be text or thinking, though it is known
  // already; and the call that is open behind it, until that is told.
  std::string known_text_, known_reasoning_;
  std::optional<ToolCallDelta> open_;
};

}  // namespace sluice::text
