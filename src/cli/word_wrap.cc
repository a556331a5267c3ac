#include "cli/word_wrap.h"

#include <utility>

#include "cli/editor/line.h"

namespace sluice::cli {

void WordWrap::Place(std::string* out, int columns) {
  const int width = WidthOf(std::exchange(visible_, {}));
  if (column_ > 0 && column_ + width >= columns) {
    *out += '\n';
    column_ = 0;
  }
  *out += std::exchange(word_, {});
  column_ += width;
}

std::string WordWrap::Add(std::string_view piece, int columns) {
  std::string out;
  for (const char c : piece) {
    if (escape_ || c == '\x1b') {
      escape_ = c != 'm';
      word_ += c;
      continue;
    }
    if (c == ' ' || c == '\n') {
      Place(&out, columns);
      if (c == '\n') {
        column_ = 0;
        out += c;
      } else if (column_ + 1 < columns) {
        ++column_;
        out += c;
      }
      continue;
    }
    const bool begins = (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // a character of UTF-8
    if (begins && visible_.size() >= static_cast<size_t>(columns)) Place(&out, columns);
    word_ += c;
    visible_ += c;
  }
  return out;
}

std::string WordWrap::Finish(int columns) {
  std::string out;
  Place(&out, columns);
  return out;
}

}  // namespace sluice::cli
