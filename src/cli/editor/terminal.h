// Reads texts from a terminal in raw mode. While one lives, the terminal neither echoes nor gathers
// lines, so that what is typed during an answer waits for the next text. One at a time; main
// thread.
#pragma once

#include <termios.h>

#include <string>
#include <vector>

#include "cli/editor/editor.h"

namespace sluice::cli {

class Terminal {
 public:
  struct Input {
    enum class Kind { kText, kInterrupted, kEndOfFile } kind = Kind::kText;
    std::string text;
    bool restarted = false;  // Ctrl-C took away what it began as
  };

  // `input` and `output` are descriptors of a terminal.
  Terminal(int input, int output, const std::vector<std::string>& commands,
           std::string history_path);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Lets the user write a text, which begins as `text`, up to Enter. A text that is submitted
  // enters the history.
  Input Read(std::string text = {});

  // How the terminal was before, for a program that ends without the destructor.
  const termios& before() const { return before_; }

 private:
  void SetRaw(bool editing);
  bool ReadBytes();  // false: the terminal is gone
  void Draw();
  void Leave();  // moves behind the text
  // How far above the cursor what was drawn begins now that there are that many columns.
  size_t RowsAbove(int columns) const;
  void Write(const std::string& bytes) const;

  const int input_, output_;
  const bool rebreaks_;  // a new width has the terminal break again what is on its screen
  History history_;
  Editor editor_;
  KeyReader keys_;
  termios before_{};
  std::vector<std::string> above_;  // the rows that were drawn, down to the cursor's
  size_t rows_below_ = 0;           // of what was drawn, below the cursor
  int columns_ = 0;                 // of the terminal when that was drawn
};

}  // namespace sluice::cli
