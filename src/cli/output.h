// What the subcommands write: std::cout while a StandardOutput lives, and errors. Main thread.
#pragma once

#include <streambuf>
#include <string>
#include <string_view>

#include "base/visible.h"

namespace sluice::cli {

// Gives the descriptors 0 to 2, where the program was started without them, to nothing, so that no
// file or connection becomes one of them. Reading and writing them still fails.
void FillStandardDescriptors();

// std::cout for its life, at most one at a time. On a terminal, control characters other than
// newline and tab are shown as their values (base/visible.h), and a line is written when it is
// complete; elsewhere every byte is written as it is.
class StandardOutput : public std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  // What the last write that failed gave as errno; 0: none failed. What could not be written is
  // dropped.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  bool Write();  // what waits

  const bool terminal_;
  std::streambuf* const before_;
  VisibleStream visible_;
  std::string waiting_;
  int error_ = 0;
};

// Whether standard output, a terminal, takes colours: unless NO_COLOR is set or it is a dumb one.
bool TakesColors();
// Text with escapes of our own, which std::cout would show. REQUIRES: standard output is a
// terminal, and all else of the text is visible (base/visible.h).
void PrintColored(std::string_view text);

// A line for people beside what was asked for: dim where it takes colours. REQUIRES: standard
// output is a terminal.
void PrintDim(std::string_view line);

// "sluice: MESSAGE" on a line of standard error.
void PrintError(std::string_view message);

}  // namespace sluice::cli
