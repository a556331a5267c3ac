// How a name or text that came from a file stands in a message: in quotes, with bytes that are not
// printable ASCII as \xNN, and cut after 80 bytes. A file cannot inject terminal codes or lines.
#pragma once

#include <string>
#include <string_view>

namespace sluice::files {

inline std::string Quote(std::string_view text) {
  constexpr size_t kBytesMax = 80;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text.substr(0, kBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  out += text.size() > kBytesMax ? "...\"" : "\"";
  return out;
}

}  // namespace sluice::files
