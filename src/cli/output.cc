#include "cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>

#include "base/environment.h"

namespace sluice::cli {
namespace {

constexpr size_t kWaitingBytesMax = 64u << 10;

// Writes all of the text to standard output; gives what went wrong as errno has it, or 0.
int WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDOUT_FILENO, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      // Another program that has this file open asked for that.
      pollfd writable{STDOUT_FILENO, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void FillStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // Takes the lowest that is free, which is this one, for the direction that nobody uses.
    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

StandardOutput::StandardOutput()
    : terminal_(isatty(STDOUT_FILENO) != 0), before_(std::cout.rdbuf(this)) {}

StandardOutput::~StandardOutput() {
  waiting_ += visible_.Finish();
  Write();
  std::cout.rdbuf(before_);
}

StandardOutput::int_type StandardOutput::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char character = traits_type::to_char_type(c);
  return xsputn(&character, 1) == 1 ? c : traits_type::eof();
}

std::streamsize StandardOutput::xsputn(const char* text, std::streamsize size) {
  const std::string_view piece(text, static_cast<size_t>(size));
  if (terminal_) {
    waiting_ += visible_.Add(piece);
  } else {
    waiting_ += piece;
  }
  const bool line = terminal_ && piece.find('\n') != piece.npos;
  return (line || waiting_.size() >= kWaitingBytesMax) && !Write() ? 0 : size;
}

int StandardOutput::sync() { return Write() ? 0 : -1; }

bool StandardOutput::Write() {
  const int error = WriteAll(waiting_);
  waiting_.clear();
  if (error != 0) error_ = error;
  return error == 0;
}

bool TakesColors() { return Environment("NO_COLOR").empty() && Environment("TERM") != "dumb"; }

void PrintColored(std::string_view text) {
  std::cout << std::flush;
  // A terminal that is gone is told by the next write of std::cout.
  [[maybe_unused]] const int error = WriteAll(text);
}

void PrintDim(std::string_view line) {
  const bool dim = TakesColors();
  PrintColored((dim ? "\x1b[2m" : "") + Visible(line) + (dim ? "\x1b[0m" : "") + "\n");
}

void PrintError(std::string_view message) { std::cerr << "sluice: " + Visible(message) + "\n"; }

}  // namespace sluice::cli
