// Code points and the character classes that published tokenizers use. The classes are those of the
// Python package `tokenizers` (its regular expressions know Unicode 16, its Bert classes Unicode
// 8), not the newest Unicode: see docs/tokenizers.md. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace sluice::text {

constexpr uint32_t kCodePointEnd = 0x110000;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

enum class Category : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
  kCn,
};

// Properties of one code point: the general category in the low 5 bits, then flags.
using Properties = uint16_t;
constexpr Properties kCategoryMask = 31;
constexpr Properties kHan = 1 << 5;              // script Han
constexpr Properties kBertPunctuation = 1 << 6;  // what Punctuation and Bert split at
constexpr Properties kBertControl = 1 << 7;      // what Bert's cleaning removes
constexpr Properties kBertAccent = 1 << 8;       // what Bert's accent stripping removes
constexpr Properties kCombiningMark = 1 << 9;    // what StripAccents removes
constexpr Properties kNotNormalized = 1 << 10;   // unknown to the normal forms: kept, never moved

Properties PropertiesOf(uint32_t code_point);
inline Category CategoryOf(uint32_t code_point) {
  return static_cast<Category>(PropertiesOf(code_point) & kCategoryMask);
}
bool IsWhitespace(uint32_t code_point);
bool IsWordCharacter(uint32_t code_point);  // \w
// False when NFC neither changes nor moves the code point, whatever stands around it.
bool MayRecompose(uint32_t code_point);

// `text` without the characters of which `goes` holds at its front, or at its end. REQUIRES: UTF-8
template <class Goes>
std::string_view StripLeft(std::string_view text, Goes goes) {
  for (size_t next = 0; !text.empty() && goes(DecodeUtf8(text, &next)); next = 0) {
    text.remove_prefix(next);
  }
  return text;
}
template <class Goes>
std::string_view StripRight(std::string_view text, Goes goes) {
  size_t start = text.size();
  while (start > 0 && goes(DecodeUtf8Before(text, &start))) text = text.substr(0, start);
  return text;
}

// Sets of code points as sorted, disjoint, closed ranges.
struct CodePointRange {
  uint32_t first, last;
};
using CodePointSet = std::vector<CodePointRange>;
// All code points whose category is in `categories` (bit i is category i).
CodePointSet SetOfCategories(uint32_t categories);
CodePointSet SetOfProperty(Properties flag);
CodePointSet WhitespaceSet();
CodePointSet WordSet();
CodePointSet Normalized(CodePointSet ranges);  // sorts and joins
CodePointSet Union(const CodePointSet& a, const CodePointSet& b);
CodePointSet Complement(const CodePointSet& a);
CodePointSet Intersection(const CodePointSet& a, const CodePointSet& b);
bool Contains(const CodePointSet& set, uint32_t code_point);

}  // namespace sluice::text
