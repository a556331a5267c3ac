#include "text/pre_tokenizer_pattern_parser.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::text {
namespace {

constexpr size_t kSourceBytesMax = 64u << 10;
constexpr int kDepthMax = 50;
constexpr uint32_t kRepeatMax = 1000;
// Ranges of characters that the sets of an expression are made of. Published expressions need less
// than a third.
constexpr size_t kRangesMax = 128u << 10;
constexpr size_t kPropertiesMax = 100;

constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
constexpr std::pair<std::string_view, char> kLongNames[] = {
    {"letter", 'L'}, {"mark", 'M'},   {"number", 'N'},    {"punctuation", 'P'},
    {"punct", 'P'},  {"symbol", 'S'}, {"separator", 'Z'}, {"other", 'C'}};

CodePointSet DigitSet() { return SetOfCategories(1u << static_cast<int>(Category::kNd)); }

// \w of the regular expressions counts Latin-1's superscripts and fractions as word characters.
CodePointSet RegexWordSet() { return Union(WordSet(), {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}}); }

std::optional<CodePointSet> PropertySet(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (lower == "han") return SetOfProperty(kHan);
  if (lower == "space" || lower == "white_space") return WhitespaceSet();
  if (lower == "digit") return DigitSet();
  for (const auto& [word, letter] : kLongNames) {
    if (lower == word) name = std::string_view(&letter, 1);
  }
  uint32_t categories = 0;
  for (size_t i = 0; i < kCategoryNames.size(); ++i) {
    if (kCategoryNames[i] == name || (name.size() == 1 && kCategoryNames[i][0] == name[0])) {
      categories |= 1u << i;
    }
  }
  if (categories == 0) return std::nullopt;
  return SetOfCategories(categories);
}

// Both cases of every ASCII letter in the set, and what folds to one. Only ranges with letters are
// looked into: an expression may have as many sets as characters.
CodePointSet FoldCase(CodePointSet set) {
  CodePointSet more;
  const auto add = [&set, &more](uint32_t first, uint32_t last, uint32_t to_other_case) {
    for (const CodePointRange& range : set) {
      const uint32_t from = std::max(range.first, first), to = std::min(range.last, last);
      if (from <= to) more.push_back({from + to_other_case, to + to_other_case});
    }
  };
  add('A', 'Z', 'a' - 'A');
  add('a', 'z', uint32_t{'A'} - uint32_t{'a'});
  add('K', 'K', 0x212A - 'K');  // KELVIN SIGN
  add('k', 'k', 0x212A - 'k');
  add('S', 'S', 0x17F - 'S');  // LONG S
  add('s', 's', 0x17F - 's');
  if (more.empty()) return set;
  set.insert(set.end(), more.begin(), more.end());
  return Normalized(std::move(set));
}

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source) {}

  Result<PatternTree> Parse() {
    PatternTree tree = ParseChoice(0);
    if (error_.empty() && !AtEnd()) Fail("a ')' without '('");
    if (!error_.empty()) return BadModel(error_);
    return tree;
  }

 private:
  using Kind = PatternTree::Kind;

  bool AtEnd() const { return !error_.empty() || offset_ >= source_.size(); }
  bool At(std::string_view text) const {
    return error_.empty() && source_.compare(offset_, text.size(), text) == 0;
  }
  bool Eat(std::string_view text) {
    if (!At(text)) return false;
    offset_ += text.size();
    return true;
  }
  // Whether the next byte is one of these; most characters of an expression stand for themselves.
  // REQUIRES: !AtEnd()
  bool IsOneOf(std::string_view bytes) const {
    return bytes.find(source_[offset_]) != std::string_view::npos;
  }
  // REQUIRES: !AtEnd()
  uint32_t Next() { return DecodeUtf8(source_, &offset_); }
  void Fail(std::string_view what) {
    if (!error_.empty()) return;
    error_ = StrCat("the regular expression ", Quote(source_), " has ", what, " at byte ", offset_,
                    ", which is not supported");
  }

  PatternTree ParseChoice(int depth) {
    if (depth > kDepthMax) Fail("groups nested too deep");
    PatternTree choice;
    choice.kind = Kind::kChoice;
    do {
      choice.children.push_back(ParseSequence(depth));
    } while (Eat("|"));
    if (choice.children.size() == 1) return std::move(choice.children[0]);
    bool all_sets = std::all_of(choice.children.begin(), choice.children.end(),
                                [](const PatternTree& child) { return child.kind == Kind::kSet; });
    if (!all_sets) return choice;
    PatternTree joined;
    joined.kind = Kind::kSet;
    for (const PatternTree& child : choice.children) {
      joined.set.insert(joined.set.end(), child.set.begin(), child.set.end());
    }
    joined.set = Counted(Normalized(std::move(joined.set)));
    return joined;
  }

  PatternTree ParseSequence(int depth) {
    PatternTree sequence;
    sequence.kind = Kind::kSequence;
    while (!AtEnd() && !At("|") && !At(")")) {
      PatternTree atom = ParseAtom(depth);
      sequence.children.push_back(ParseQuantifier(std::move(atom)));
    }
    if (sequence.children.empty()) return PatternTree{};
    if (sequence.children.size() == 1) return std::move(sequence.children[0]);
    return sequence;
  }

  void CountRanges(size_t count) {
    ranges_ += count;
    if (ranges_ > kRangesMax) Fail("too many ranges of characters");
  }
  CodePointSet Counted(CodePointSet set) {
    CountRanges(set.size());
    return set;
  }
  // What `make` finds among all ranges of code points, once for each name.
  template <class Make>
  CodePointSet Property(std::string_view name, Make make) {
    auto found = properties_.find(name);
    if (found == properties_.end()) {
      const std::optional<CodePointSet> set = make();
      if (!set) {
        Fail("an unknown property");
        return {};
      }
      if (properties_.size() == kPropertiesMax) Fail("too many different properties");
      found = properties_.emplace(name, *set).first;
    }
    return found->second;
  }

  PatternTree SetNode(CodePointSet set) {
    PatternTree node;
    node.kind = Kind::kSet;
    node.set = Counted(ignore_case_ ? FoldCase(std::move(set)) : std::move(set));
    return node;
  }

  // REQUIRES: !AtEnd()
  PatternTree ParseAtom(int depth) {
    if (!IsOneOf("([.^$*+?\\")) {
      const uint32_t code_point = Next();
      return SetNode({{code_point, code_point}});
    }
    if (Eat("(")) return ParseGroup(depth);
    if (Eat("[")) return SetNode(ParseClass(depth));
    PatternTree node;
    if (Eat(".")) return SetNode(Complement({{'\n', '\n'}}));
    if (Eat("^")) {
      node.kind = Kind::kLineStart;
      return node;
    }
    if (Eat("$")) {
      node.kind = Kind::kLineEnd;
      return node;
    }
    if (At("*") || At("+") || At("?")) {
      Fail("a quantifier without anything before it");
      return node;
    }
    Eat("\\");
    return SetNode(ParseEscape());
  }

  PatternTree ParseGroup(int depth) {
    bool outer_case = ignore_case_;
    PatternTree node;
    bool ahead = false;
    if (Eat("?")) {
      if (Eat("i:")) {
        ignore_case_ = true;
      } else if (At("=") || At("!")) {
        node.kind = At("=") ? Kind::kAhead : Kind::kNotAhead;
        ++offset_;
        ahead = true;
      } else if (!Eat(":")) {
        Fail("a group of another kind than (...), (?:...), (?i:...), (?=...) and (?!...)");
      }
    }
    PatternTree inside = ParseChoice(depth + 1);
    if (!Eat(")")) Fail("a '(' without ')'");
    ignore_case_ = outer_case;
    if (!ahead) return inside;
    if (inside.kind != Kind::kSet) Fail("a look-ahead on more than one character");
    node.set = std::move(inside.set);
    return node;
  }

  std::optional<uint32_t> ParseNumber() {
    if (AtEnd() || source_[offset_] < '0' || source_[offset_] > '9') return std::nullopt;
    uint32_t value = 0;
    while (!AtEnd() && source_[offset_] >= '0' && source_[offset_] <= '9') {
      value = value * 10 + static_cast<uint32_t>(source_[offset_++] - '0');
      if (value > kRepeatMax) {
        Fail("a count over 1000");
        return std::nullopt;
      }
    }
    return value;
  }

  // {n}, {n,}, {,m} or {n,m}; anything else in braces is text.
  bool ParseCounts(PatternTree* repeat) {
    size_t start = offset_;
    if (!Eat("{")) return false;
    std::optional<uint32_t> least = ParseNumber();
    std::optional<uint32_t> most = least;
    bool comma = Eat(",");
    if (comma) most = ParseNumber();
    if (!Eat("}") || (!least && !most)) {
      offset_ = start;
      return false;
    }
    repeat->least = least.value_or(0);
    repeat->most = comma ? most.value_or(PatternTree::kUnbounded) : *least;
    if (repeat->most < repeat->least) Fail("a count whose end is before its start");
    return true;
  }

  PatternTree ParseQuantifier(PatternTree atom) {
    for (int depth = 0;; ++depth) {
      if (AtEnd() || !IsOneOf("?*+{")) return atom;
      PatternTree repeat;
      repeat.kind = Kind::kRepeat;
      bool counted = false;
      if (Eat("?")) {
        repeat.least = 0;
      } else if (Eat("*")) {
        repeat.least = 0;
        repeat.most = PatternTree::kUnbounded;
      } else if (Eat("+")) {
        repeat.most = PatternTree::kUnbounded;
      } else if (At("{") && ParseCounts(&repeat)) {
        counted = true;
      } else {
        return atom;
      }
      if (depth > kDepthMax) Fail("counts nested too deep");
      if (At("?")) Fail("a lazy quantifier");
      if (!counted && Eat("+")) repeat.possessive = true;
      repeat.children.push_back(std::move(atom));
      atom = std::move(repeat);
      if (At("*") || At("+") || At("?")) Fail("a quantifier of a quantifier");
      if (!error_.empty()) return atom;
    }
  }

  uint32_t ParseHex(size_t digits_max) {
    uint32_t value = 0;
    size_t digits = 0;
    while (!AtEnd() && digits < digits_max) {
      char c = source_[offset_];
      int digit = c >= '0' && c <= '9'   ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<uint32_t>(digit);
      ++offset_;
      ++digits;
    }
    if (digits == 0 || value >= kCodePointEnd) Fail("a hexadecimal escape without a code point");
    return value;
  }

  CodePointSet ParseProperty(bool negated) {
    if (!Eat("{")) {
      Fail("a property without braces");
      return {};
    }
    if (Eat("^")) negated = !negated;
    size_t close = source_.find('}', offset_);
    if (close == std::string_view::npos) {
      Fail("a property without '}'");
      return {};
    }
    const std::string_view name = source_.substr(offset_, close - offset_);
    const CodePointSet set = Property(name, [name] { return PropertySet(name); });
    offset_ = close + 1;
    return negated ? Complement(set) : set;
  }

  // After a backslash.
  CodePointSet ParseEscape() {
    if (AtEnd()) {
      Fail("a backslash at its end");
      return {};
    }
    auto one = [](uint32_t code_point) { return CodePointSet{{code_point, code_point}}; };
    uint32_t letter = Next();
    switch (letter) {
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one(0);
      case 's':
        return Property("}s", WhitespaceSet);
      case 'S':
        return Complement(Property("}s", WhitespaceSet));
      case 'd':
        return Property("}d", DigitSet);
      case 'D':
        return Complement(Property("}d", DigitSet));
      case 'w':
        return Property("}w", RegexWordSet);
      case 'W':
        return Complement(Property("}w", RegexWordSet));
      case 'p':
        return ParseProperty(false);
      case 'P':
        return ParseProperty(true);
      case 'u':
        return one(ParseHex(4));
      case 'x': {
        if (!Eat("{")) return one(ParseHex(2));
        uint32_t code_point = ParseHex(6);
        if (!Eat("}")) Fail("\\x{ without '}'");
        return one(code_point);
      }
      default:
        break;
    }
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
        (letter >= '1' && letter <= '9')) {
      Fail("an escape of another kind");
    }
    return one(letter);
  }

  // After '['.
  CodePointSet ParseClass(int depth) {
    if (depth > kDepthMax) Fail("classes nested too deep");
    bool negated = Eat("^");
    CodePointSet current;
    std::optional<CodePointSet> intersected;
    bool first = true;
    while (!AtEnd() && (first || !At("]"))) {
      first = false;
      if (Eat("&&")) {
        current = Normalized(std::move(current));
        intersected = Counted(intersected ? Intersection(*intersected, current) : current);
        current.clear();
        continue;
      }
      if (At("[:")) Fail("a POSIX class");
      CodePointSet item = Counted(ParseClassItem(depth));
      current.insert(current.end(), item.begin(), item.end());
    }
    if (!Eat("]")) Fail("a '[' without ']'");
    current = Normalized(std::move(current));
    if (intersected) current = Intersection(*intersected, current);
    return negated ? Complement(current) : current;
  }

  CodePointSet ParseClassItem(int depth) {
    if (Eat("[")) return ParseClass(depth + 1);
    CodePointSet item;
    if (Eat("\\")) {
      item = ParseEscape();
    } else {
      uint32_t code_point = Next();
      item = {{code_point, code_point}};
    }
    bool single = item.size() == 1 && item[0].first == item[0].last;
    if (!single || !At("-") || source_.substr(offset_).starts_with("-]")) return item;
    ++offset_;
    if (AtEnd()) return item;
    if (At("[")) {
      Fail("a range that ends in a class");
      return item;
    }
    CodePointSet last;
    if (Eat("\\")) {
      last = ParseEscape();
    } else {
      uint32_t code_point = Next();
      last = {{code_point, code_point}};
    }
    if (last.size() != 1 || last[0].first != last[0].last || last[0].last < item[0].first) {
      Fail("a range that does not go up");
      return item;
    }
    return {{item[0].first, last[0].last}};
  }

  std::string_view source_;
  size_t offset_ = 0;
  bool ignore_case_ = false;
  size_t ranges_ = 0;
  // By name; those of \s, \d and \w begin with a brace, which no name in braces holds.
  std::map<std::string, CodePointSet, std::less<>> properties_;
  std::string error_;
};

}  // namespace

Result<PatternTree> ParsePattern(std::string_view source) {
  if (source.size() > kSourceBytesMax) {
    return BadModel(StrCat("a regular expression has ", source.size(), " bytes; the limit is ",
                           kSourceBytesMax));
  }
  if (!IsValidUtf8(source)) return BadModel("a regular expression is not UTF-8");
  return Parser(source).Parse();
}

}  // namespace sluice::text
