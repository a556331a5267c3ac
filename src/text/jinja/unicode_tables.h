// Facts about characters that utf8proc does not tell, in ascending order of code points. The .cc is
// written by tools/golden/templates/unicode_tables.py. Any thread.
#pragma once

#include <cstddef>

namespace sluice::text::jinja {

struct CharRange {
  char32_t first, last;
};

// A case mapping to more than one character; unused places are 0.
struct FullMapping {
  char32_t from;
  char32_t to[3];
};

extern const FullMapping kFullUpper[];
extern const size_t kFullUpperCount;
extern const FullMapping kFullTitle[];
extern const size_t kFullTitleCount;
extern const CharRange kDigitsNotDecimal[];  // superscripts, circled digits ...
extern const size_t kDigitsNotDecimalCount;
extern const CharRange kNumericLetters[];  // letters with a numeric value
extern const size_t kNumericLettersCount;
extern const CharRange kOtherLower[];  // lower case, but not of category Ll
extern const size_t kOtherLowerCount;
extern const CharRange kOtherUpper[];  // upper case, but not of category Lu
extern const size_t kOtherUpperCount;
extern const char32_t kDecimalZeros[];  // the zeros of all scripts; nine digits follow each
extern const size_t kDecimalZerosCount;

}  // namespace sluice::text::jinja
