// What was asked before, in this conversation and in those of other days: a file of one JSON text
// a line, which only its owner may read. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::cli {

class History {
 public:
  // Reads the file at `path`, which need not be there; empty: nothing is kept. A line that is no
  // JSON text is left out.
  explicit History(std::string path);

  // Appends it here and to the file, unless it is what came last. What the file system refuses is
  // lost with the program.
  void Add(const std::string& text);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  const std::string path_;
  std::vector<std::string> texts_;  // oldest first
};

// $XDG_STATE_HOME/sluice/chat_history, else ~/.local/state/sluice/chat_history; empty without a
// home.
std::string HistoryPath();

}  // namespace sluice::cli
