#include "cli/editor/editor.h"

#include <algorithm>
#include <utility>

namespace sluice::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

// A text that three quotes have begun and not ended goes on behind Enter.
bool IsOpen(const std::string& text) {
  return text.starts_with(kQuotes) && TripleQuotesIn(text) % 2 == 1;
}

}  // namespace

size_t TripleQuotesIn(std::string_view text) {
  size_t count = 0;
  for (size_t at = text.find(kQuotes); at != std::string_view::npos;
       at = text.find(kQuotes, at + kQuotes.size())) {
    ++count;
  }
  return count;
}

void Editor::Begin(std::string text) {
  line_.Set(std::move(text));
  recalled_ = history_.texts().size();
  written_.clear();
  searching_ = false;
}

std::string Editor::prompt() const { return searching_ ? "search \"" + wanted_ + "\": " : "> "; }

void Editor::Recall(int step) {
  const std::vector<std::string>& texts = history_.texts();
  if (step < 0 ? recalled_ == 0 : recalled_ == texts.size()) return;
  if (recalled_ == texts.size()) written_ = line_.text();
  recalled_ += static_cast<size_t>(step);
  line_.Set(recalled_ == texts.size() ? written_ : texts[recalled_]);
}

void Editor::Complete() {
  const std::string& text = line_.text();
  if (!text.starts_with('/') || line_.cursor() != text.size()) return;
  std::string common;
  size_t count = 0;
  for (const std::string& command : commands_) {
    if (!command.starts_with(text)) continue;
    if (count++ == 0) {
      common = command;
      continue;
    }
    const auto ends = std::mismatch(common.begin(), common.end(), command.begin(), command.end());
    common.erase(ends.first, common.end());
  }
  if (count > 0) line_.Set(common);
}

Editor::Outcome Editor::Enter() {
  if (IsOpen(line_.text())) {
    line_.Insert("\n");
    return Outcome::kGoOn;
  }
  return Outcome::kSubmitted;
}

void Editor::Search(size_t below) {
  const std::vector<std::string>& texts = history_.texts();
  for (size_t i = std::min(below, texts.size()); i > 0; --i) {
    if (texts[i - 1].find(wanted_) == std::string::npos) continue;
    found_ = i - 1;
    line_.Set(texts[found_]);
    return;
  }
}

// Letters narrow it, Ctrl-R goes on to older ones, Escape and Ctrl-C go back, any other key takes
// what was found.
Editor::Outcome Editor::PressInSearch(const Key& key) {
  switch (key.kind) {
    case KeyKind::kText:
    case KeyKind::kPaste:
      wanted_ += key.text;
      Search(history_.texts().size());
      return Outcome::kGoOn;
    case KeyKind::kBackspace:
      wanted_.erase(PreviousBorder(wanted_, wanted_.size()));
      Search(history_.texts().size());
      return Outcome::kGoOn;
    case KeyKind::kSearch:
      Search(found_);
      return Outcome::kGoOn;
    case KeyKind::kEscape:
    case KeyKind::kInterrupt:
      searching_ = false;
      line_.Set(std::exchange(written_, {}));
      return Outcome::kGoOn;
    default:
      searching_ = false;
      return Press(key);
  }
}

bool Editor::Edit(const Key& key) {
  static constexpr std::pair<KeyKind, void (Line::*)()> kEdits[] = {
      {KeyKind::kLeft, &Line::Left},           {KeyKind::kRight, &Line::Right},
      {KeyKind::kWordLeft, &Line::WordLeft},   {KeyKind::kWordRight, &Line::WordRight},
      {KeyKind::kHome, &Line::Home},           {KeyKind::kEnd, &Line::End},
      {KeyKind::kBackspace, &Line::Backspace}, {KeyKind::kDelete, &Line::Delete},
      {KeyKind::kKillEnd, &Line::KillEnd},     {KeyKind::kKillStart, &Line::KillStart},
      {KeyKind::kKillWord, &Line::KillWord},
  };
  for (const auto& [kind, edit] : kEdits) {
    if (key.kind != kind) continue;
    (line_.*edit)();
    return true;
  }
  return false;
}

Editor::Outcome Editor::Press(const Key& key) {
  if (searching_) return PressInSearch(key);
  if (Edit(key)) return Outcome::kGoOn;
  switch (key.kind) {
    case KeyKind::kText:
    case KeyKind::kPaste:
      line_.Insert(key.text);
      return Outcome::kGoOn;
    case KeyKind::kNewline:
      line_.Insert("\n");
      return Outcome::kGoOn;
    case KeyKind::kEnter:
      return Enter();
    case KeyKind::kUp:
      if (!line_.Up()) Recall(-1);
      return Outcome::kGoOn;
    case KeyKind::kDown:
      if (!line_.Down()) Recall(1);
      return Outcome::kGoOn;
    case KeyKind::kTab:
      Complete();
      return Outcome::kGoOn;
    case KeyKind::kSearch:
      searching_ = true;
      written_ = line_.text();
      wanted_.clear();
      found_ = history_.texts().size();
      return Outcome::kGoOn;
    case KeyKind::kEndOfFile:
      if (line_.text().empty()) return Outcome::kEndOfFile;
      line_.Delete();
      return Outcome::kGoOn;
    case KeyKind::kInterrupt:
      if (line_.text().empty()) return Outcome::kInterrupted;
      Begin("");
      return Outcome::kGoOn;
    case KeyKind::kSuspend:
      return Outcome::kSuspended;
    case KeyKind::kClear:
      return Outcome::kCleared;
    default:
      return Outcome::kGoOn;
  }
}

}  // namespace sluice::cli
