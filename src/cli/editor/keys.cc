#include "cli/editor/keys.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace sluice::cli {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::string_view kPasteBegins = "\x1b[200~", kPasteEnds = "\x1b[201~";

constexpr std::pair<std::string_view, KeyKind> kSequences[] = {
    {"\x1b[D", KeyKind::kLeft},
    {"\x1bOD", KeyKind::kLeft},
    {"\x1b[C", KeyKind::kRight},
    {"\x1bOC", KeyKind::kRight},
    {"\x1b[A", KeyKind::kUp},
    {"\x1bOA", KeyKind::kUp},
    {"\x1b[B", KeyKind::kDown},
    {"\x1bOB", KeyKind::kDown},
    {"\x1b[H", KeyKind::kHome},
    {"\x1bOH", KeyKind::kHome},
    {"\x1b[1~", KeyKind::kHome},
    {"\x1b[7~", KeyKind::kHome},
    {"\x1b[F", KeyKind::kEnd},
    {"\x1bOF", KeyKind::kEnd},
    {"\x1b[4~", KeyKind::kEnd},
    {"\x1b[8~", KeyKind::kEnd},
    {"\x1b[3~", KeyKind::kDelete},
    {"\x1b[1;5D", KeyKind::kWordLeft},
    {"\x1b[1;3D", KeyKind::kWordLeft},
    {"\x1b"
     "b",
     KeyKind::kWordLeft},
    {"\x1b[1;5C", KeyKind::kWordRight},
    {"\x1b[1;3C", KeyKind::kWordRight},
    {"\x1b"
     "f",
     KeyKind::kWordRight},
    {"\x1b\r", KeyKind::kNewline},
    {"\x1b\n", KeyKind::kNewline},
    {"\x1b\x7f", KeyKind::kKillWord},
    {"\x1b[13;2u", KeyKind::kNewline},  // Shift-Enter, where a terminal tells
};

constexpr std::pair<char, KeyKind> kControls[] = {
    {'\r', KeyKind::kEnter},       {'\n', KeyKind::kEnter},       {'\x01', KeyKind::kHome},
    {'\x02', KeyKind::kLeft},      {'\x03', KeyKind::kInterrupt}, {'\x04', KeyKind::kEndOfFile},
    {'\x05', KeyKind::kEnd},       {'\x06', KeyKind::kRight},     {'\x08', KeyKind::kBackspace},
    {'\t', KeyKind::kTab},         {'\x0b', KeyKind::kKillEnd},   {'\x0c', KeyKind::kClear},
    {'\x0e', KeyKind::kDown},      {'\x10', KeyKind::kUp},        {'\x12', KeyKind::kSearch},
    {'\x15', KeyKind::kKillStart}, {'\x17', KeyKind::kKillWord},  {'\x1a', KeyKind::kSuspend},
    {'\x7f', KeyKind::kBackspace},
};

// Line ends as \n, without other control characters, bytes that are not UTF-8 as U+FFFD.
std::string Plain(std::string_view text) {
  std::string lines;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\r') {
      lines += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else if (c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != '\x7f')) {
      lines += c;
    }
  }
  return RepairUtf8(lines);
}

// Bytes of a character by its first one.
size_t CharacterBytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

KeyReader::Found KeyReader::LookPaste() const {
  const size_t end = waiting_.find(kPasteEnds);
  if (end == std::string::npos) return {};
  const size_t begin = kPasteBegins.size();
  return {Key{KeyKind::kPaste, Plain(std::string_view(waiting_).substr(begin, end - begin))},
          end + kPasteEnds.size()};
}

KeyReader::Found KeyReader::LookEscape(bool quiet) const {
  if (waiting_.starts_with(kPasteBegins)) return LookPaste();
  for (const auto& [bytes, kind] : kSequences) {
    if (waiting_.starts_with(bytes)) return {Key{kind, ""}, bytes.size()};
  }
  if (waiting_.size() == 1) {
    return quiet ? Found{Key{KeyKind::kEscape, ""}, 1} : Found{};
  }
  const char second = waiting_[1];
  if (second != '[' && second != 'O') return {std::nullopt, 2};  // Alt and a character
  // Of a sequence that nobody asked for the end is known (ECMA-48, 5.4).
  for (size_t i = 2; i < waiting_.size(); ++i) {
    if (waiting_[i] >= 0x40 && waiting_[i] <= 0x7e) return {std::nullopt, i + 1};
  }
  return quiet ? Found{std::nullopt, waiting_.size()} : Found{};
}

KeyReader::Found KeyReader::Look(bool quiet) const {
  const char first = waiting_.front();
  if (first == kEscape) return LookEscape(quiet);
  for (const auto& [control, kind] : kControls) {
    if (first == control) return {Key{kind, ""}, 1};
  }
  if (static_cast<unsigned char>(first) < 0x20) return {std::nullopt, 1};
  const size_t bytes = CharacterBytes(first);
  if (waiting_.size() < bytes) return quiet ? Found{std::nullopt, waiting_.size()} : Found{};
  return {Key{KeyKind::kText, RepairUtf8(waiting_.substr(0, bytes))}, bytes};
}

std::optional<Key> KeyReader::Next(bool quiet) {
  while (!waiting_.empty()) {
    Found found = Look(quiet);
    if (found.bytes == 0) return std::nullopt;
    waiting_.erase(0, found.bytes);
    if (found.key) return std::move(found.key);
  }
  return std::nullopt;
}

}  // namespace sluice::cli
