#include "base/quoted.h"

namespace sluice {

std::string Quoted(std::string_view text) {
  constexpr size_t kShownMax = 120;
  size_t shown = text.size();
  if (shown > kShownMax) {
    shown = kShownMax;
    // Not within a character of UTF-8, which has at most three such bytes.
    while (shown > kShownMax - 3 && (static_cast<unsigned char>(text[shown]) & 0xC0) == 0x80) {
      --shown;
    }
  }
  std::string out = "\"";
  for (const char c : text.substr(0, shown)) {
    out += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  }
  return out + (text.size() > shown ? "...\"" : "\"");
}

}  // namespace sluice
