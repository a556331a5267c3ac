#include "text/normalizer_charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "base/str_cat.h"
#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

constexpr size_t kGraphemeBytesMax = 6;

// A unit of the trie: bit 31 marks a value, bits 0-7 a label, bit 8 that a value follows, bits
// 10-30 an offset that bit 9 scales by 256.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

Result<CharacterMap> CharacterMap::Parse(std::string_view bytes) {
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes) {
    return BadModel(StrCat("the precompiled character map has only ", bytes.size(), " bytes"));
  }
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  bytes.remove_prefix(sizeof trie_bytes);
  if (trie_bytes > bytes.size() || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes == 0) {
    return BadModel(StrCat("the precompiled character map declares a trie of ", trie_bytes,
                           " bytes but ", bytes.size(), " follow"));
  }
  CharacterMap map;
  map.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(map.units_.data(), bytes.data(), trie_bytes);
  map.replacements_ = bytes.substr(trie_bytes);
  if (!IsValidUtf8(map.replacements_)) {
    return BadModel("the precompiled character map has replacements that are not UTF-8");
  }
  // A replacement is read up to a zero byte, so one must end the last.
  map.replacements_.push_back('\0');
  return map;
}

bool CharacterMap::Find(std::string_view text, std::string_view* replacement) const {
  size_t node = Offset(units_[0]);
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return false;
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) return false;
    uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) return false;
    size_t begin = Value(units_[node]);
    // A start inside a character would cut it.
    if (begin >= replacements_.size() ||
        (static_cast<unsigned char>(replacements_[begin]) & 0xC0) == 0x80) {
      return false;
    }
    *replacement = std::string_view(replacements_.data() + begin);
    return true;
  }
  return false;
}

void CharacterMap::AppendGrapheme(std::string_view grapheme, size_t bytes_max,
                                  std::string* out) const {
  std::string_view replacement;
  if (grapheme.size() < kGraphemeBytesMax && Find(grapheme, &replacement)) {
    *out += replacement;
    return;
  }
  for (size_t offset = 0; offset < grapheme.size() && out->size() <= bytes_max;) {
    size_t length = Utf8Length(static_cast<unsigned char>(grapheme[offset]));
    std::string_view character = grapheme.substr(offset, length);
    *out += Find(character, &replacement) ? replacement : character;
    offset += length;
  }
}

void CharacterMap::Append(std::string_view valid_utf8, size_t bytes_max, std::string* out) const {
  size_t start = 0;
  utf8proc_int32_t state = 0;
  utf8proc_int32_t previous = -1;
  for (size_t offset = 0; offset < valid_utf8.size() && out->size() <= bytes_max;) {
    size_t begin = offset;
    auto code_point = static_cast<utf8proc_int32_t>(DecodeUtf8(valid_utf8, &offset));
    bool ascii_pair =
        previous >= 0x20 && previous < 0x7F && code_point >= 0x20 && code_point < 0x7F;
    if (previous >= 0 &&
        (ascii_pair || utf8proc_grapheme_break_stateful(previous, code_point, &state))) {
      if (ascii_pair) state = 0;
      AppendGrapheme(valid_utf8.substr(start, begin - start), bytes_max, out);
      start = begin;
    }
    previous = code_point;
  }
  AppendGrapheme(valid_utf8.substr(start), bytes_max, out);
}

}  // namespace sluice::text
