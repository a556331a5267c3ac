#include "cli/markdown_color.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace sluice::cli {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n'; }
// Of a word: letters of other scripts than Latin count, too.
bool IsWord(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0;
}
bool IsMarker(char c) { return c == '*' || c == '_' || c == '`'; }

size_t CountOf(std::string_view text, char c) {
  const size_t end = text.find_first_not_of(c);
  return end == text.npos ? text.size() : end;
}

}  // namespace

std::string MarkdownColor::Add(std::string_view piece) {
  std::string out;
  for (const char c : piece) {
    if (c == '\n') {
      if (at_start_) BeginLine(c, &out);
      EndLine(&out);
    } else if (at_start_ && std::string_view(" \t#`~>").find(c) != std::string_view::npos) {
      start_ += c;
    } else {
      if (at_start_) BeginLine(c, &out);
      Take(c, &out);
    }
  }
  return out;
}

std::string MarkdownColor::Finish() {
  std::string out;
  if (at_start_) BeginLine('\n', &out);
  EndRun('\n', &out);
  Write("", {}, &out);
  *this = MarkdownColor();
  return out;
}

void MarkdownColor::BeginLine(char next, std::string* out) {
  at_start_ = false;
  const std::string start = std::exchange(start_, {});
  const std::string_view markers =
      std::string_view(start).substr(std::min(start.find_first_not_of(" \t"), start.size()));
  const char first = markers.empty() ? next : markers[0];
  const size_t count = CountOf(markers, first);
  if ((first == '`' || first == '~') && count >= 3) {
    fence_line_ = true;
    if (!InBlock()) {
      fence_ = markers.substr(0, count);
    } else if (markers.starts_with(fence_) && markers.size() == count && next == '\n') {
      fence_.clear();
    }
    return Write(start, {.code = true}, out);
  }
  if (InBlock()) return Write(start, {.code = true}, out);
  if (first == '#' && count <= 6 && IsSpace(markers.size() > count ? markers[count] : next)) {
    style_.bold = true;
  } else if (first == '>') {
    style_.dim = true;
  }
  for (const char c : start) Take(c, out);
}

void MarkdownColor::Take(char c, std::string* out) {
  if (InBlock() || fence_line_) return Write({&c, 1}, {.code = true}, out);
  if (!run_.empty() && c != run_[0]) EndRun(c, out);
  if (IsMarker(c) && before_ != '\\') {
    run_ += c;
    return;
  }
  Write({&c, 1}, style_, out);
  before_ = c;
}

void MarkdownColor::EndRun(char next, std::string* out) {
  const std::string run = std::exchange(run_, {});
  if (run.empty()) return;
  const char marker = run[0];
  Style style = style_;  // of the markers: as what lies between them
  if (marker == '`') {
    const bool closes = code_ == run.size();
    if (code_ == 0) code_ = run.size();
    style.code = style_.code = true;
    if (closes) {
      code_ = 0;
      style_.code = false;
    }
  } else if (code_ == 0 && run.size() <= 3) {
    const bool inside = marker == '_';  // of a word it is a letter
    const bool opens = !IsSpace(next) && !(inside && IsWord(before_));
    const bool closes = !IsSpace(before_) && !(inside && IsWord(next));
    const auto toggle = [&](bool* on) {
      if (*on ? closes : opens) *on = !*on;
    };
    if (run.size() != 1) toggle(&style_.bold);
    if (run.size() != 2) toggle(&style_.italic);
    style = {style.bold || style_.bold, style.italic || style_.italic, style.code, style.dim};
  }
  Write(run, style, out);
  before_ = marker;
}

void MarkdownColor::EndLine(std::string* out) {
  EndRun('\n', out);
  Write("\n", {}, out);
  style_ = {};
  code_ = 0;
  before_ = '\n';
  at_start_ = true;
  fence_line_ = false;
}

void MarkdownColor::Write(std::string_view text, const Style& style, std::string* out) {
  if (style != shown_) {
    if (shown_ != Style()) *out += "\x1b[0m";
    if (style.bold) *out += "\x1b[1m";
    if (style.dim) *out += "\x1b[2m";
    if (style.italic) *out += "\x1b[3m";
    if (style.code) *out += "\x1b[36m";
    shown_ = style;
  }
  *out += text;
}

}  // namespace sluice::cli
