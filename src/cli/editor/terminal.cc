#include "cli/editor/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/environment.h"

namespace sluice::cli {
namespace {

// After this long an escape is a key, and a new size of the window is looked for.
constexpr int kQuietMs = 50;
constexpr int kSmallestColumns = 20, kUsualColumns = 80, kUsualRows = 24;
constexpr const char* kPasteOn = "\x1b[?2004h";
constexpr const char* kPasteOff = "\x1b[?2004l";
constexpr const char* kEraseBelow = "\x1b[J";
constexpr const char* kEraseAll = "\x1b[H\x1b[2J";

winsize SizeOf(int output) {
  winsize size{};
  if (ioctl(output, TIOCGWINSZ, &size) != 0) size = {};
  if (size.ws_col == 0) size.ws_col = kUsualColumns;
  if (size.ws_row == 0) size.ws_row = kUsualRows;
  size.ws_col = std::max<unsigned short>(size.ws_col, kSmallestColumns);
  return size;
}

// Whether a terminal breaks the lines on its screen again when its width changes, as all do but a
// few: xterm, st, Linux' console and GNU screen cut them.
bool BreaksAgain() {
  const std::string term = Environment("TERM");
  if (!Environment("TMUX").empty()) return true;
  return Environment("XTERM_VERSION").empty() && term != "linux" && term != "st" &&
         !term.starts_with("st-") && !term.starts_with("screen") && !term.starts_with("vt");
}

std::string Moved(size_t count, char direction) {
  return count == 0 ? "" : "\x1b[" + std::to_string(count) + direction;
}

}  // namespace

Terminal::Terminal(int input, int output, const std::vector<std::string>& commands,
                   std::string history_path)
    : input_(input),
      output_(output),
      rebreaks_(BreaksAgain()),
      history_(std::move(history_path)),
      editor_(history_, commands) {
  tcgetattr(input_, &before_);
  SetRaw(false);
}

Terminal::~Terminal() { tcsetattr(input_, TCSADRAIN, &before_); }

// Without `editing` Ctrl-C raises SIGINT, which stops an answer.
void Terminal::SetRaw(bool editing) {
  termios raw = before_;
  raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | IXON | INLCR);
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  if (editing) raw.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  tcsetattr(input_, TCSADRAIN, &raw);  // what was typed ahead stays
}

void Terminal::Write(const std::string& bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(output_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno != EINTR) return;
    done += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
}

bool Terminal::ReadBytes() {
  char bytes[4096];
  const ssize_t count = read(input_, bytes, sizeof bytes);
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  keys_.Add({bytes, static_cast<size_t>(count)});
  return true;
}

size_t Terminal::RowsAbove(int columns) const {
  if (above_.empty()) return 0;
  if (columns == columns_ || !rebreaks_) return above_.size() - 1;
  size_t rows = LastRow(above_.back(), columns);
  for (size_t row = 0; row + 1 < above_.size(); ++row) rows += LastRow(above_[row], columns) + 1;
  return rows;
}

// What is taller than the screen is shown around the cursor.
void Terminal::Draw() {
  const winsize size = SizeOf(output_);
  // A prompt that leaves no room (a long search) is cut.
  std::string prompt = editor_.prompt();
  if (WidthOf(prompt) + 4 > size.ws_col) prompt = "> ";
  const Line& line = editor_.line();
  const ScreenRows screen = LayOut(prompt, line.text(), line.cursor(), size.ws_col);
  const size_t height = std::max<size_t>(1, size.ws_row - 1u);
  const size_t first = screen.cursor_row < height ? 0 : screen.cursor_row - height + 1;
  const size_t last = std::min(screen.rows.size(), first + height);
  std::string out = Moved(RowsAbove(size.ws_col), 'A') + "\r" + kEraseBelow;
  for (size_t row = first; row < last; ++row) {
    out += (row > first ? "\r\n" : "") + screen.rows[row];
  }
  rows_below_ = last - 1 - screen.cursor_row;
  const auto begin = screen.rows.begin();
  above_.assign(begin + static_cast<ptrdiff_t>(first),
                begin + static_cast<ptrdiff_t>(screen.cursor_row + 1));
  above_.back().resize(Through(above_.back(), screen.cursor_column).size());
  out += Moved(rows_below_, 'A') + "\r" + Moved(static_cast<size_t>(screen.cursor_column), 'C');
  columns_ = size.ws_col;
  Write(out);
}

void Terminal::Leave() {
  Write(Moved(rows_below_, 'B') + "\r\n" + kPasteOff);
  above_.clear();
  rows_below_ = 0;
}

Terminal::Input Terminal::Read(std::string text) {
  using Kind = Input::Kind;
  editor_.Begin(std::move(text));
  SetRaw(true);
  Write(kPasteOn);
  Draw();
  Input input;
  input.kind = Kind::kEndOfFile;
  bool restarted = false;
  for (bool over = false; !over;) {
    pollfd ready{input_, POLLIN, 0};
    const bool quiet = poll(&ready, 1, kQuietMs) == 0;
    if (!quiet && !ReadBytes()) break;
    bool pressed = false;
    while (!over) {
      const auto key = keys_.Next(quiet);
      if (!key) break;
      pressed = true;
      const Editor::Outcome outcome = editor_.Press(*key);
      restarted |= key->kind == KeyKind::kInterrupt && editor_.line().text().empty();
      switch (outcome) {
        case Editor::Outcome::kGoOn:
          break;
        case Editor::Outcome::kSubmitted:
          input = {Kind::kText, editor_.line().text(), false};
          over = true;
          break;
        case Editor::Outcome::kInterrupted:
          input.kind = Kind::kInterrupted;
          over = true;
          break;
        case Editor::Outcome::kEndOfFile:
          over = true;
          break;
        case Editor::Outcome::kSuspended:
          Leave();
          tcsetattr(input_, TCSADRAIN, &before_);
          raise(SIGTSTP);  // comes back here when the shell lets the program go on
          SetRaw(true);
          Write(kPasteOn);
          break;
        case Editor::Outcome::kCleared:
          Write(kEraseAll);
          above_.clear();
          break;
      }
    }
    // A paste or what was typed ahead is drawn once.
    if (pressed || SizeOf(output_).ws_col != columns_) Draw();
  }
  Leave();
  SetRaw(false);
  input.restarted = restarted;
  if (input.kind == Kind::kText && !input.text.empty()) history_.Add(input.text);
  return input;
}

}  // namespace sluice::cli
