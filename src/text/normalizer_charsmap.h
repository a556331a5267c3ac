// SentencePiece's precompiled character map: a double-array trie (Darts-clone) from byte strings to
// replacements. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::text {

class CharacterMap {
 public:
  // kBadModel when the sizes do not fit `bytes` or a replacement could lie outside.
  static Result<CharacterMap> Parse(std::string_view bytes);

  // Appends `valid_utf8` with every mapped character replaced, as the package `tokenizers` does it:
  // an extended grapheme of under 6 bytes that begins with a mapped string is replaced as a whole
  // by the replacement of the shortest such string; in others each character is looked up alone.
  // Stops soon after `out` has more than `bytes_max`.
  void Append(std::string_view valid_utf8, size_t bytes_max, std::string* out) const;

 private:
  // The replacement of the shortest mapped prefix of `text`; false when there is none.
  bool Find(std::string_view text, std::string_view* replacement) const;
  void AppendGrapheme(std::string_view grapheme, size_t bytes_max, std::string* out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

}  // namespace sluice::text
