// The text that is being written, and how it lies on a screen. Positions are bytes at the borders
// of what a reader takes for one character. Values of one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

// The border after, or before, the one at `offset` (itself at an end of the text).
size_t NextBorder(std::string_view text, size_t offset);
size_t PreviousBorder(std::string_view text, size_t offset);

// Columns that a text without line ends takes on a terminal. A tab takes four.
int WidthOf(std::string_view text);

class Line {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }

  void Set(std::string text);  // with the cursor at its end
  void Insert(std::string_view text);
  void Left() { cursor_ = PreviousBorder(text_, cursor_); }
  void Right() { cursor_ = NextBorder(text_, cursor_); }
  void WordLeft();
  void WordRight();
  // Of the line within the text that the cursor is in.
  void Home();
  void End();
  // To the line above or below, near the same column; false at the first or last one.
  bool Up();
  bool Down();
  void Backspace();
  void Delete();
  void KillEnd();
  void KillStart();
  void KillWord();

 private:
  void EraseTo(size_t other);  // from the cursor, in either direction
  size_t LineStart(size_t offset) const;
  size_t LineEnd(size_t offset) const;

  std::string text_;
  size_t cursor_ = 0;
};

// The row, from 0 on, that the last character of a text without line ends is in where a terminal of
// that many columns breaks it anywhere.
size_t LastRow(std::string_view text, int columns);
// What of a row stands in front of a column, and the character there.
std::string_view Through(std::string_view row, int column);

// The rows of a terminal that a text takes behind a prompt, further lines being set in by as much.
struct ScreenRows {
  std::vector<std::string> rows;
  size_t cursor_row = 0;
  int cursor_column = 0;
};
// REQUIRES: columns >= 2 + the width of `prompt`
ScreenRows LayOut(std::string_view prompt, std::string_view text, size_t cursor, int columns);

}  // namespace sluice::cli
