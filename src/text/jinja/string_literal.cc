#include "text/jinja/string_literal.h"

#include <cstdio>

#include "base/str_cat.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Python's spelling of a character in its backslashreplace error handler.
std::string BackslashReplace(char32_t c) {
  char text[16];
  const unsigned value = static_cast<unsigned>(c);
  std::snprintf(text, sizeof text,
                value < 0x100     ? "x%02x"
                : value < 0x10000 ? "u%04x"
                                  : "U%08x",
                value);
  return text;
}

// Reads `digits` hexadecimal digits at `*place`.
std::optional<char32_t> ReadHex(std::string_view text, size_t* place, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i, ++*place) {
    const int digit = *place < text.size() ? HexDigit(text[*place]) : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<char32_t>(digit);
  }
  return value;
}

char SimpleEscape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return '\0';
  }
}

// The escape after a backslash at `*place`; false if malformed.
bool DecodeEscape(std::string_view in, size_t* place, std::string* out, std::string* problem) {
  const char c = in[*place];
  if (static_cast<unsigned char>(c) >= 0x80) {
    // Python writes the character as an escape first, whose backslash this one then escapes.
    out->push_back('\\');
    out->append(BackslashReplace(DecodeUtf8(in, place)));
    return true;
  }
  ++*place;
  if (c == '\n') return true;
  if (const char simple = SimpleEscape(c); simple != '\0') {
    out->push_back(simple);
    return true;
  }
  if (c >= '0' && c <= '7') {
    char32_t value = static_cast<char32_t>(c - '0');
    for (int i = 0; i < 2 && *place < in.size() && in[*place] >= '0' && in[*place] <= '7'; ++i) {
      value = value * 8 + static_cast<char32_t>(in[(*place)++] - '0');
    }
    AppendUtf8(value, out);
    return true;
  }
  if (c == 'N') {
    *problem = "a string names a character by \\N{...}, which is not supported; write \\uXXXX";
    return false;
  }
  if (c != 'x' && c != 'u' && c != 'U') {
    out->push_back('\\');
    out->push_back(c);
    return true;
  }
  const std::optional<char32_t> value = ReadHex(in, place, c == 'x' ? 2 : c == 'u' ? 4 : 8);
  if (!value) {
    *problem = StrCat("a string has a truncated \\", c, " escape");
    return false;
  }
  if (*value > 0x10FFFF || (*value >= 0xD800 && *value < 0xE000)) {
    *problem =
        StrCat("a string has the escape \\", BackslashReplace(*value), ", which is no character");
    return false;
  }
  AppendUtf8(*value, out);
  return true;
}

}  // namespace

std::optional<std::string> DecodeStringLiteral(std::string_view inside, std::string* problem) {
  std::string out;
  size_t place = 0;
  while (place < inside.size()) {
    if (inside[place] != '\\') {
      out.push_back(inside[place++]);
      continue;
    }
    ++place;
    if (place >= inside.size()) {
      out.push_back('\\');
      break;
    }
    if (!DecodeEscape(inside, &place, &out, problem)) return std::nullopt;
  }
  return out;
}

}  // namespace sluice::text::jinja
