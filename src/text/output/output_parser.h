// OutputParser: takes one answer's text apart into thinking, text and calls of tools, as it comes.
// What it makes of a text does not depend on how that is cut. One per answer; not thread-safe.
#pragma once

#include <memory>
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
  bool Step(TextDelta* delta);
  void Answer(std::string_view piece, TextDelta* delta);

  const std::unique_ptr<CallParser> calls_;
  const ThinkTags* const tags_;
  const std::string_view cut_;
  AnswerParts parts_;
  State state_;
  PendingText pending_;
};

}  // namespace sluice::text
