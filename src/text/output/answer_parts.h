// AnswerParts: where parsers put what an answer's text turned out to be: text, thinking, and calls
// of tools. It keeps the rules that all families share: which white space is layout of the tags and
// belongs to nobody, what a call has when the model wrote no arguments, and what of several calls
// is wanted. One per answer; not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sluice/request.h"

namespace sluice::text {

// Makes a call's id of so many letters and digits, drawn at random, behind `prefix`.
std::string DrawCallId(std::string_view prefix, size_t length);

// White space that may turn out to be layout is held back, as much as this; what is more is text.
inline constexpr size_t kHeldSpaceMax = 256;

class AnswerParts {
 public:
  // `short_ids`: Mistral's templates take back ids of nine letters and digits alone.
  AnswerParts(const OutputParsing& wanted, bool short_ids)
      : wanted_(wanted), short_ids_(short_ids) {}

  // All of these append to `delta`.
  void Text(std::string_view piece, TextDelta* delta);
  void Reasoning(std::string_view piece, TextDelta* delta);
  // The thinking is over, for now: white space at its end and before what follows is dropped.
  void EndReasoning();
  // `id`: what the model wrote, where its family has ids that mean something; else drawn.
  void BeginCall(std::string_view name, std::string id, TextDelta* delta);
  // A piece of the call's arguments. REQUIRES: in a call
  void Arguments(std::string_view piece, TextDelta* delta);
  void EndCall(TextDelta* delta);
  // The text ends where it ends, in a call too.
  void Finish(TextDelta* delta);
  // Calls that are begun from here on are numbered from 0, behind the one that is open, if there is
  // one; where one alone is wanted, it may have come. Gives whether one is open that is wanted.
  bool CountAnew() {
    const bool open = in_call_ && !dropped_;
    if (!wanted_.one_call) calls_ = open ? 1 : 0;
    return open;
  }

  bool in_call() const { return in_call_; }
  // That were begun and are wanted.
  int calls() const { return calls_; }
  const OutputParsing& wanted() const { return wanted_; }

 private:
  // Text with the white space at its end held back.
  struct Held {
    std::string space;
    bool at_start = false;  // white space is dropped until something else comes
    // Gives what is certain.
    std::string Add(std::string_view piece);
  };

  const OutputParsing wanted_;
  const bool short_ids_;
  bool texted_ = false;  // some text has come
  Held text_, reasoning_{{}, true};
  bool thought_ = false;      // some thinking has come
  bool new_thought_ = false;  // and has ended
  bool in_call_ = false, dropped_ = false, has_arguments_ = false;
  int calls_ = 0;
};

}  // namespace sluice::text
