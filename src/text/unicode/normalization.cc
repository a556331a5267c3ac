#include "text/unicode/normalization.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "text/unicode/characters.h"

namespace sluice::text {
namespace {

constexpr size_t kDecompositionMax = 32;  // code points; Unicode's longest has 18

int CombiningClass(uint32_t code_point) {
  if (code_point < 0x300 || (PropertiesOf(code_point) & kNotNormalized) != 0) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class;
}

void Decompose(uint32_t code_point, bool compatibility, std::vector<uint32_t>* out) {
  if (code_point < 0x80 || (PropertiesOf(code_point) & kNotNormalized) != 0) {
    out->push_back(code_point);
    return;
  }
  utf8proc_int32_t parts[kDecompositionMax];
  int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  int boundary_class = 0;
  utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts, kDecompositionMax,
                              static_cast<utf8proc_option_t>(options), &boundary_class);
  if (count < 0 || count > static_cast<utf8proc_ssize_t>(kDecompositionMax)) {
    out->push_back(code_point);
    return;
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) out->push_back(static_cast<uint32_t>(parts[i]));
}

// Sorts each run of combining marks by class, equal ones in their order.
void OrderMarks(std::vector<uint32_t>* text) {
  std::vector<std::pair<int, uint32_t>> marks;
  for (size_t i = 0; i < text->size();) {
    if (CombiningClass((*text)[i]) == 0) {
      ++i;
      continue;
    }
    marks.clear();
    size_t end = i;
    for (; end < text->size(); ++end) {
      int combining_class = CombiningClass((*text)[end]);
      if (combining_class == 0) break;
      marks.emplace_back(combining_class, (*text)[end]);
    }
    std::stable_sort(marks.begin(), marks.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& mark : marks) (*text)[i++] = mark.second;
  }
}

// The one code point that the pair is canonically equal to, or 0.
uint32_t ComposePair(uint32_t first, uint32_t second) {
  if ((PropertiesOf(first) & kNotNormalized) != 0 || (PropertiesOf(second) & kNotNormalized) != 0) {
    return 0;
  }
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first),
                              static_cast<utf8proc_int32_t>(second)};
  constexpr int kOptions = UTF8PROC_COMPOSE | UTF8PROC_STABLE;
  if (utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(kOptions)) != 1) return 0;
  auto composed = static_cast<uint32_t>(pair[0]);
  return (PropertiesOf(composed) & kNotNormalized) != 0 ? 0 : composed;
}

void Compose(std::vector<uint32_t>* text) {
  size_t out = 0;
  size_t starter = std::string_view::npos;
  int last_class = -1;  // of the last mark kept after the starter; -1: none
  for (uint32_t code_point : *text) {
    int combining_class = CombiningClass(code_point);
    if (starter != std::string_view::npos && last_class < combining_class) {
      if (uint32_t composed = ComposePair((*text)[starter], code_point); composed != 0) {
        (*text)[starter] = composed;
        continue;
      }
    }
    if (combining_class == 0) {
      starter = out;
      last_class = -1;
    } else {
      last_class = combining_class;
    }
    (*text)[out++] = code_point;
  }
  text->resize(out);
}

void AppendForm(NormalForm form, std::string_view part, std::string* out) {
  std::vector<uint32_t> code_points;
  bool compatibility = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  for (size_t offset = 0; offset < part.size();) {
    Decompose(DecodeUtf8(part, &offset), compatibility, &code_points);
  }
  OrderMarks(&code_points);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) Compose(&code_points);
  for (uint32_t code_point : code_points) AppendUtf8(code_point, out);
}

// The end of the ASCII text that begins at `offset`.
size_t AsciiEnd(std::string_view text, size_t offset) {
  while (offset + 8 <= text.size()) {
    uint64_t word;
    __builtin_memcpy(&word, text.data() + offset, 8);
    if ((word & 0x8080808080808080u) != 0) break;
    offset += 8;
  }
  while (offset < text.size() && static_cast<unsigned char>(text[offset]) < 0x80) ++offset;
  return offset;
}

// NFC touches only the code points that may recompose and the one in front of each run of them, so
// the rest is copied.
bool ToNfc(std::string_view text, std::string* out) {
  size_t copied = 0;    // text before this is in `out`
  size_t previous = 0;  // start of the character before `offset`
  bool changed = false;
  for (size_t offset = 0; offset < text.size();) {
    size_t ascii_end = AsciiEnd(text, offset);
    if (ascii_end > offset) {
      previous = ascii_end - 1;
      offset = ascii_end;
      if (offset == text.size()) break;
    }
    size_t start = offset;
    if (!MayRecompose(DecodeUtf8(text, &offset))) {
      previous = start;
      continue;
    }
    size_t end = offset;
    size_t last = start;
    while (end < text.size()) {
      size_t next = end;
      if (!MayRecompose(DecodeUtf8(text, &next))) break;
      last = end;
      end = next;
    }
    size_t begin = start == 0 ? 0 : std::max(previous, copied);
    if (!changed) out->clear();
    changed = true;
    out->append(text, copied, begin - copied);
    AppendForm(NormalForm::kNfc, text.substr(begin, end - begin), out);
    copied = end;
    previous = last;
    offset = end;
  }
  if (!changed) return false;
  out->append(text, copied);
  return true;
}

}  // namespace

bool ToNormalForm(NormalForm form, std::string_view valid_utf8, std::string* out) {
  if (form == NormalForm::kNfc) return ToNfc(valid_utf8, out);
  if (AsciiEnd(valid_utf8, 0) == valid_utf8.size()) return false;
  out->clear();
  AppendForm(form, valid_utf8, out);
  return true;
}

void AppendLowercase(uint32_t code_point, std::string* out) {
  if (code_point < 0x80) {
    bool upper = code_point >= 'A' && code_point <= 'Z';
    out->push_back(static_cast<char>(upper ? code_point + 32 : code_point));
  } else if (code_point == 0x130) {
    *out += "i\xCC\x87";
  } else {
    AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))),
               out);
  }
}

}  // namespace sluice::text
