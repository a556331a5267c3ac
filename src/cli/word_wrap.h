// Breaks a text that comes in pieces between words, at a terminal's width. Escapes that colour it
// take no room. One thread.
#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

class WordWrap {
 public:
  // What can be written now: all but the word that is not complete, unless it is as long as a line.
  // `columns`: of the terminal now.
  std::string Add(std::string_view piece, int columns);
  // What still waits.
  std::string Finish(int columns);

 private:
  void Place(std::string* out, int columns);  // writes the word that waits

  std::string word_;
  std::string visible_;  // of the word: all but the escapes that colour it
  bool escape_ = false;  // one has begun, which ends with an m
  int column_ = 0;
};

}  // namespace sluice::cli
