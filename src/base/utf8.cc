#include "base/utf8.h"

#include <algorithm>
#include <cstring>

namespace sluice {

void AppendUtf8(uint32_t code_point, std::string* out) {
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xC0 | code_point >> 6));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | code_point >> 12));
    out->push_back(static_cast<char>(0x80 | (code_point >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | code_point >> 18));
    out->push_back(static_cast<char>(0x80 | (code_point >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code_point >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  }
}

std::vector<uint32_t> DecodeAll(std::string_view valid_utf8) {
  std::vector<uint32_t> code_points;
  for (size_t offset = 0; offset < valid_utf8.size();) {
    code_points.push_back(DecodeUtf8(valid_utf8, &offset));
  }
  return code_points;
}

uint32_t DecodeUtf8Before(std::string_view text, size_t* offset) {
  do {
    --*offset;
  } while (*offset > 0 && IsUtf8Continuation(text[*offset]));
  size_t start = *offset;
  return DecodeUtf8(text, &start);
}

size_t CountUtf8(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsUtf8Continuation(c); }));
}

size_t Utf8Offset(std::string_view valid_utf8, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < valid_utf8.size(); --index) {
    offset += Utf8LengthAt(valid_utf8, offset);
  }
  return offset;
}

std::string_view Utf8Prefix(std::string_view valid_utf8, size_t bytes_max) {
  if (valid_utf8.size() <= bytes_max) return valid_utf8;
  size_t end = bytes_max;
  while (end > 0 && IsUtf8Continuation(valid_utf8[end])) --end;
  return valid_utf8.substr(0, end);
}

Utf8Front ReadUtf8Front(std::string_view bytes) {
  using Kind = Utf8Front::Kind;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  unsigned char lead = byte(0);
  if (lead < 0x80) return {Kind::kValid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::kBroken, 1};
  size_t length = Utf8Length(lead);
  // The second byte has a narrower range after some leads: no overlong forms, no surrogates,
  // nothing above U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Kind::kUnfinished, i};
    if (byte(i) < low || byte(i) > high) return {Kind::kBroken, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::kValid, length};
}

bool IsValidUtf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    if (i + 8 <= bytes.size()) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + i, 8);
      if ((word & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    Utf8Front front = ReadUtf8Front(bytes.substr(i));
    if (front.kind != Utf8Front::Kind::kValid) return false;
    i += front.length;
  }
  return true;
}

std::string RepairUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    Utf8Front front = ReadUtf8Front(bytes);
    out += front.kind == Utf8Front::Kind::kValid ? bytes.substr(0, front.length)
                                                 : kReplacementCharacter;
    bytes.remove_prefix(front.length);
  }
  return out;
}

}  // namespace sluice
