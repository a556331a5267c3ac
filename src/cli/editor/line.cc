#include "cli/editor/line.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace sluice::cli {
namespace {

constexpr int kTabColumns = 4;

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t'; }

// Of one character: a base and what joins it (accents, parts of an emoji).
int CharacterWidth(std::string_view character) {
  if (character == "\t") return kTabColumns;
  int width = 0;
  for (size_t offset = 0; offset < character.size();) {
    const auto point = static_cast<utf8proc_int32_t>(DecodeUtf8(character, &offset));
    width = std::max(width, utf8proc_charwidth(point));
  }
  return width;
}

}  // namespace

size_t NextBorder(std::string_view text, size_t offset) {
  if (offset >= text.size()) return text.size();
  utf8proc_int32_t state = 0;
  size_t end = offset;
  auto before = static_cast<utf8proc_int32_t>(DecodeUtf8(text, &end));
  while (end < text.size()) {
    size_t next = end;
    const auto point = static_cast<utf8proc_int32_t>(DecodeUtf8(text, &next));
    if (utf8proc_grapheme_break_stateful(before, point, &state)) break;
    before = point;
    end = next;
  }
  return end;
}

size_t PreviousBorder(std::string_view text, size_t offset) {
  // Where a character ends depends on what stands before it; a line end is a border always.
  size_t at = 0;
  if (offset > 0) {
    const size_t line = text.rfind('\n', offset - 1);
    if (line != std::string_view::npos) at = line + 1 == offset ? line : line + 1;
  }
  for (size_t next = at; next < offset; next = NextBorder(text, at)) at = next;
  return at;
}

int WidthOf(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t next = NextBorder(text, at);
    width += CharacterWidth(text.substr(at, next - at));
    at = next;
  }
  return width;
}

size_t LastRow(std::string_view text, int columns) {
  size_t row = 0;
  int column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t next = NextBorder(text, at);
    const int width = CharacterWidth(text.substr(at, next - at));
    at = next;
    if (column + width > columns) {
      ++row;
      column = 0;
    }
    column += width;
  }
  return row;
}

std::string_view Through(std::string_view row, int column) {
  int width = 0;
  for (size_t at = 0; at < row.size();) {
    const size_t next = NextBorder(row, at);
    width += CharacterWidth(row.substr(at, next - at));
    at = next;
    if (width > column) return row.substr(0, at);
  }
  return row;
}

void Line::Set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void Line::Insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void Line::WordLeft() {
  while (cursor_ > 0 && IsSpace(text_[cursor_ - 1])) --cursor_;
  while (cursor_ > 0 && !IsSpace(text_[cursor_ - 1])) --cursor_;
}

void Line::WordRight() {
  while (cursor_ < text_.size() && IsSpace(text_[cursor_])) ++cursor_;
  while (cursor_ < text_.size() && !IsSpace(text_[cursor_])) ++cursor_;
}

size_t Line::LineStart(size_t offset) const {
  if (offset == 0) return 0;
  const size_t end = text_.rfind('\n', offset - 1);
  return end == std::string::npos ? 0 : end + 1;
}

size_t Line::LineEnd(size_t offset) const {
  return std::min(text_.find('\n', offset), text_.size());
}

void Line::Home() { cursor_ = LineStart(cursor_); }
void Line::End() { cursor_ = LineEnd(cursor_); }

bool Line::Up() {
  const size_t start = LineStart(cursor_);
  if (start == 0) return false;
  const int column = WidthOf(std::string_view(text_).substr(start, cursor_ - start));
  const size_t end = start - 1;
  cursor_ = LineStart(end);
  const size_t above = cursor_;
  while (cursor_ < end &&
         WidthOf(std::string_view(text_).substr(above, cursor_ - above)) < column) {
    Right();
  }
  return true;
}

bool Line::Down() {
  const size_t end = LineEnd(cursor_);
  if (end == text_.size()) return false;
  const size_t start = LineStart(cursor_);
  const int column = WidthOf(std::string_view(text_).substr(start, cursor_ - start));
  cursor_ = end + 1;
  const size_t below = cursor_, below_end = LineEnd(below);
  while (cursor_ < below_end &&
         WidthOf(std::string_view(text_).substr(below, cursor_ - below)) < column) {
    Right();
  }
  return true;
}

void Line::EraseTo(size_t other) {
  const size_t from = std::min(cursor_, other);
  text_.erase(from, std::max(cursor_, other) - from);
  cursor_ = from;
}

void Line::Backspace() { EraseTo(PreviousBorder(text_, cursor_)); }
void Line::Delete() { EraseTo(NextBorder(text_, cursor_)); }
void Line::KillEnd() { EraseTo(LineEnd(cursor_)); }
void Line::KillStart() { EraseTo(LineStart(cursor_)); }

void Line::KillWord() {
  const size_t end = cursor_;
  WordLeft();
  EraseTo(end);
}

ScreenRows LayOut(std::string_view prompt, std::string_view text, size_t cursor, int columns) {
  ScreenRows screen;
  const int margin = WidthOf(prompt);
  screen.rows.emplace_back(prompt);
  int column = margin;
  const auto new_row = [&] {
    screen.rows.emplace_back(static_cast<size_t>(margin), ' ');
    column = margin;
  };
  for (size_t at = 0;;) {
    if (at == cursor) {
      screen.cursor_row = screen.rows.size() - 1;
      screen.cursor_column = column;
    }
    if (at >= text.size()) break;
    const size_t next = NextBorder(text, at);
    const std::string_view character = text.substr(at, next - at);
    at = next;
    if (character == "\n") {
      new_row();
      continue;
    }
    const int width = CharacterWidth(character);
    // The last column stays free: terminals differ in where the cursor is behind it.
    if (column + width >= columns) {
      const bool cursor_here = screen.cursor_row + 1 == screen.rows.size() &&
                               screen.cursor_column == column && at - character.size() == cursor;
      new_row();
      if (cursor_here) {
        ++screen.cursor_row;
        screen.cursor_column = column;
      }
    }
    screen.rows.back() +=
        character == "\t" ? std::string(kTabColumns, ' ') : std::string(character);
    column += width;
  }
  return screen;
}

}  // namespace sluice::cli
