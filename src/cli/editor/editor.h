// What keys do to the text that is being written: editing, history, search and completion. Knows no
// terminal. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/editor/history.h"
#include "cli/editor/keys.h"
#include "cli/editor/line.h"

namespace sluice::cli {

// How often three quotes stand in a text. One that begins with them goes on behind the end of a
// line while that is an odd number.
size_t TripleQuotesIn(std::string_view text);

class Editor {
 public:
  enum class Outcome { kGoOn, kSubmitted, kInterrupted, kEndOfFile, kSuspended, kCleared };

  // `commands`: what Tab completes at the beginning of a text. Both must outlive it.
  Editor(const History& history, const std::vector<std::string>& commands)
      : history_(history), commands_(commands) {}

  // Begins a new text.
  void Begin(std::string text);
  Outcome Press(const Key& key);

  const Line& line() const { return line_; }
  // What stands before the text: "> ", or what is searched for.
  std::string prompt() const;

 private:
  void Recall(int step);  // -1: what came before
  void Complete();
  Outcome Enter();
  Outcome PressInSearch(const Key& key);
  void Search(size_t below);  // finds the newest one under that index that has what is searched for
  bool Edit(const Key& key);  // false: the key is none of editing

  const History& history_;
  const std::vector<std::string>& commands_;
  Line line_;
  size_t recalled_ = 0;  // index in the history; its size: what is being written
  std::string written_;  // is kept while older texts are looked at
  bool searching_ = false;
  std::string wanted_;  // what is searched for
  size_t found_ = 0;
};

}  // namespace sluice::cli
