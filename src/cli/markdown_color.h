// Markdown in colour, as it comes: headings and ** are bold, * and _ are italic, code has a colour,
// quotes are dim. No character is left out or added but escapes, so that what is copied from the
// terminal is what the model wrote, and no more than a run of markers waits for what follows it.
// What is begun on a line ends with it, but for blocks of code. One thread.
#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

class MarkdownColor {
 public:
  // What can be shown of the text so far. REQUIRES: it has no escapes of its own (base/visible.h).
  std::string Add(std::string_view piece);
  // What still waits, with all colours off.
  std::string Finish();

 private:
  struct Style {
    bool bold = false, italic = false, code = false, dim = false;
    bool operator==(const Style&) const = default;
  };
  void BeginLine(char next, std::string* out);  // what stands before the line's first other byte
  void Take(char c, std::string* out);          // of a line, behind that
  void EndRun(char next, std::string* out);     // `next` is no marker of the run's
  void EndLine(std::string* out);
  void Write(std::string_view text, const Style& style, std::string* out);
  bool InBlock() const { return !fence_.empty(); }

  std::string start_;     // of a line: spaces and markers that wait
  bool at_start_ = true;  // nothing else of it was seen
  bool fence_line_ = false;
  std::string fence_;   // the markers that began a block of code; empty: there is none
  std::string run_;     // markers that wait: all of one kind
  char before_ = '\n';  // the byte in front of them
  size_t code_ = 0;     // how many of ` began the code on this line; 0: none did
  Style style_, shown_;
};

}  // namespace sluice::cli
