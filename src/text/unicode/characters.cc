#include "text/unicode/characters.h"

#include <algorithm>
#include <array>
#include <memory>

#include "text/unicode/table.h"

namespace sluice::text {
namespace {

constexpr uint32_t kPageBits = 8;
constexpr uint32_t kPageSize = 1u << kPageBits;
constexpr uint32_t kPageCount = kCodePointEnd >> kPageBits;

constexpr uint32_t Bit(Category category) { return 1u << static_cast<int>(category); }
constexpr uint32_t kWordCategories = Bit(Category::kLu) | Bit(Category::kLl) | Bit(Category::kLt) |
                                     Bit(Category::kLm) | Bit(Category::kLo) | Bit(Category::kMn) |
                                     Bit(Category::kMc) | Bit(Category::kMe) | Bit(Category::kNd) |
                                     Bit(Category::kNl) | Bit(Category::kPc);
// Symbols that Unicode calls alphabetic: circled and squared letters.
constexpr CodePointRange kAlphabeticSymbols[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

// Code point to properties in two steps; equal pages are stored once.
class PropertyPages {
 public:
  PropertyPages() {
    std::vector<Properties> page(kPageSize);
    size_t range = 0;
    size_t edge = 0;
    for (uint32_t number = 0; number < kPageCount; ++number) {
      bool recomposes_any = false;
      for (uint32_t i = 0; i < kPageSize; ++i) {
        uint32_t code_point = number << kPageBits | i;
        while (range + 1 < kPropertyRangeCount && kPropertyRanges[range + 1] >> 11 <= code_point) {
          ++range;
        }
        while (edge < kCompositionEdgeCount && kCompositionEdges[edge] <= code_point) ++edge;
        page[i] = kPropertyRanges[range] & 0x7FF;
        if (edge % 2 == 1) {
          page[i] |= kRecomposes;
          recomposes_any = true;
        }
      }
      Store(number, page, recomposes_any);
    }
  }

  static constexpr Properties kRecomposes = 1 << 11;

  Properties Get(uint32_t code_point) const {
    if (code_point >= kCodePointEnd) return static_cast<Properties>(Category::kCn);
    return values_[index_[code_point >> kPageBits] + (code_point & (kPageSize - 1))];
  }

 private:
  void Store(uint32_t number, const std::vector<Properties>& page, bool mixed) {
    bool uniform = !mixed && std::all_of(page.begin(), page.end(),
                                         [&](Properties value) { return value == page[0]; });
    if (uniform) {
      for (const auto& [value, offset] : uniform_pages_) {
        if (value == page[0]) {
          index_[number] = offset;
          return;
        }
      }
    }
    index_[number] = static_cast<uint32_t>(values_.size());
    if (uniform) uniform_pages_.emplace_back(page[0], index_[number]);
    values_.insert(values_.end(), page.begin(), page.end());
  }

  std::array<uint32_t, kPageCount> index_{};
  std::vector<Properties> values_;
  std::vector<std::pair<Properties, uint32_t>> uniform_pages_;
};

const PropertyPages& Pages() {
  static const auto* pages = new PropertyPages();
  return *pages;
}

template <class Predicate>
CodePointSet SetWhere(Predicate matches) {
  CodePointSet set;
  for (size_t i = 0; i < kPropertyRangeCount; ++i) {
    if (!matches(static_cast<Properties>(kPropertyRanges[i] & 0x7FF))) continue;
    uint32_t first = kPropertyRanges[i] >> 11;
    uint32_t last =
        i + 1 < kPropertyRangeCount ? (kPropertyRanges[i + 1] >> 11) - 1 : kCodePointEnd - 1;
    set.push_back({first, last});
  }
  return Normalized(std::move(set));
}

}  // namespace

Properties PropertiesOf(uint32_t code_point) { return Pages().Get(code_point) & 0x7FF; }

bool MayRecompose(uint32_t code_point) {
  return (Pages().Get(code_point) & PropertyPages::kRecomposes) != 0;
}

bool IsWhitespace(uint32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= 9 && code_point <= 13);
  if (code_point == 0x85) return true;
  Category category = CategoryOf(code_point);
  return category == Category::kZs || category == Category::kZl || category == Category::kZp;
}

bool IsWordCharacter(uint32_t code_point) {
  static const CodePointSet set = WordSet();
  return Contains(set, code_point);
}

CodePointSet SetOfCategories(uint32_t categories) {
  return SetWhere(
      [&](Properties value) { return (categories >> (value & kCategoryMask) & 1) != 0; });
}

CodePointSet SetOfProperty(Properties flag) {
  return SetWhere([&](Properties value) { return (value & flag) != 0; });
}

CodePointSet WhitespaceSet() {
  CodePointSet set = SetOfCategories(Bit(Category::kZs) | Bit(Category::kZl) | Bit(Category::kZp));
  return Union(set, {{9, 13}, {0x85, 0x85}});
}

CodePointSet WordSet() {
  CodePointSet symbols(std::begin(kAlphabeticSymbols), std::end(kAlphabeticSymbols));
  return Union(SetOfCategories(kWordCategories), symbols);
}

CodePointSet Normalized(CodePointSet ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  CodePointSet out;
  for (const CodePointRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CodePointSet Union(const CodePointSet& a, const CodePointSet& b) {
  CodePointSet all = a;
  all.insert(all.end(), b.begin(), b.end());
  return Normalized(std::move(all));
}

CodePointSet Complement(const CodePointSet& a) {
  CodePointSet out;
  uint32_t next = 0;
  for (const CodePointRange& range : a) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next < kCodePointEnd) out.push_back({next, kCodePointEnd - 1});
  return out;
}

CodePointSet Intersection(const CodePointSet& a, const CodePointSet& b) {
  return Complement(Union(Complement(a), Complement(b)));
}

bool Contains(const CodePointSet& set, uint32_t code_point) {
  auto after = std::upper_bound(
      set.begin(), set.end(), code_point,
      [](uint32_t value, const CodePointRange& range) { return value < range.first; });
  return after != set.begin() && std::prev(after)->last >= code_point;
}

}  // namespace sluice::text
