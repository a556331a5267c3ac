// UTF-8: reading, writing, checking and repairing. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Length of the character that begins with `byte` in valid UTF-8.
inline size_t Utf8Length(unsigned char byte) {
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// Whether the byte is of a character but not its first.
inline bool IsUtf8Continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Length of the character at text[offset], at most what is left of `text`.
inline size_t Utf8LengthAt(std::string_view text, size_t offset) {
  return std::min(Utf8Length(static_cast<unsigned char>(text[offset])), text.size() - offset);
}

// Decodes the character at text[*offset] and moves past it; one that `text` cuts short is U+FFFD.
// REQUIRES: text is valid UTF-8 but for its end, and *offset is at the start of a character.
inline uint32_t DecodeUtf8(std::string_view text, size_t* offset) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data()) + *offset;
  const size_t left = text.size() - *offset;
  if (bytes[0] < 0x80) {
    *offset += 1;
    return bytes[0];
  }
  if (bytes[0] < 0xE0 && left >= 2) {
    *offset += 2;
    return (bytes[0] & 0x1Fu) << 6 | (bytes[1] & 0x3Fu);
  }
  if (bytes[0] < 0xF0 && left >= 3) {
    *offset += 3;
    return (bytes[0] & 0x0Fu) << 12 | (bytes[1] & 0x3Fu) << 6 | (bytes[2] & 0x3Fu);
  }
  if (left < 4) {
    *offset = text.size();
    return 0xFFFD;
  }
  *offset += 4;
  return (bytes[0] & 0x07u) << 18 | (bytes[1] & 0x3Fu) << 12 | (bytes[2] & 0x3Fu) << 6 |
         (bytes[3] & 0x3Fu);
}
// Decodes the character that ends at text[*offset] and moves before it. REQUIRES: text is valid
// UTF-8 and *offset > 0 is at the end of a character.
uint32_t DecodeUtf8Before(std::string_view text, size_t* offset);
std::vector<uint32_t> DecodeAll(std::string_view valid_utf8);
void AppendUtf8(uint32_t code_point, std::string* out);

// Characters that begin in `text`, whole or not.
size_t CountUtf8(std::string_view text);
// The byte where character `index` starts; the end for an index past it.
size_t Utf8Offset(std::string_view valid_utf8, size_t index);
// At most `bytes_max` bytes of the beginning, whole characters.
std::string_view Utf8Prefix(std::string_view valid_utf8, size_t bytes_max);

// What stands at the front of `bytes` (not empty) when read as UTF-8. A broken sequence is as long
// as Unicode's "maximal subpart": the bytes that one U+FFFD stands for.
struct Utf8Front {
  enum class Kind { kValid, kBroken, kUnfinished } kind;
  size_t length;  // bytes; of kUnfinished, all of them
};
Utf8Front ReadUtf8Front(std::string_view bytes);
bool IsValidUtf8(std::string_view bytes);
// `bytes` with U+FFFD for each broken or unfinished sequence.
std::string RepairUtf8(std::string_view bytes);

}  // namespace sluice
