// Text as it stands within a JSON string. Pure functions; any thread.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace sluice::text {

// Appends `text` with what JSON wants to be escaped; all other bytes go on as they are, so that a
// character may come in parts.
inline void AppendJsonText(std::string_view text, std::string* out) {
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (c == '\n') {
      *out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      *out += code;
    } else {
      *out += c;
    }
  }
}

}  // namespace sluice::text
