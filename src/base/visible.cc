#include "base/visible.h"

#include "base/utf8.h"

namespace sluice {
namespace {

constexpr size_t kQuotedBytesMax = 120;

void AppendValues(std::string_view bytes, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    *out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
}

bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  const bool c1 = first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  return first < 0x20 || first == 0x7F || c1;
}

// Appends `text` but for an unfinished character at its end, whose length is returned. What is in
// `kept` stays as it is.
size_t AppendVisible(std::string_view text, std::string_view kept, std::string* out) {
  while (!text.empty()) {
    const Utf8Front front = ReadUtf8Front(text);
    if (front.kind == Utf8Front::Kind::kUnfinished) return front.length;
    const std::string_view character = text.substr(0, front.length);
    const bool valid = front.kind == Utf8Front::Kind::kValid;
    if (valid && (!IsControl(character) || kept.find(character[0]) != kept.npos)) {
      *out += character;
    } else {
      AppendValues(character, out);
    }
    text.remove_prefix(front.length);
  }
  return 0;
}

}  // namespace

std::string Visible(std::string_view text) {
  std::string out;
  const size_t unfinished = AppendVisible(text, "", &out);
  AppendValues(text.substr(text.size() - unfinished), &out);
  return out;
}

std::string Quote(std::string_view text) {
  std::string_view shown = text.substr(0, kQuotedBytesMax);
  if (text.size() > shown.size()) {
    // Not within a character of UTF-8, which has at most three bytes after its first.
    while (shown.size() > kQuotedBytesMax - 3 && IsUtf8Continuation(text[shown.size()])) {
      shown.remove_suffix(1);
    }
  }
  return "\"" + Visible(shown) + (text.size() > shown.size() ? "...\"" : "\"");
}

std::string VisibleStream::Add(std::string_view piece) {
  unfinished_ += piece;
  std::string out;
  const size_t left = AppendVisible(unfinished_, "\n\t", &out);
  unfinished_.erase(0, unfinished_.size() - left);
  return out;
}

std::string VisibleStream::Finish() {
  std::string out;
  AppendValues(unfinished_, &out);
  unfinished_.clear();
  return out;
}

}  // namespace sluice
