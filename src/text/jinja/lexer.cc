#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "base/str_cat.h"
#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/unicode/python_str.h"

namespace sluice::text::jinja {
namespace {

// Every newline as \n, without the last one.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source.substr(i, 2) == "\r\n") continue;
    out.push_back(source[i] == '\r' ? '\n' : source[i]);
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// Those that begin like another come after it.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {}

  std::vector<Token> Run() {
    while (place_ < source_.size()) LexData();
    Emit(TokenType::kEnd, "the end of the template");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Error(std::string message) { throw SyntaxFailure{std::move(message), line_}; }

  bool At(size_t place, std::string_view what) const {
    return source_.compare(place, what.size(), what) == 0;
  }

  void Emit(TokenType type, std::string text) {
    tokens_.push_back({type, line_, std::move(text), Value()});
  }

  // Moves to `end`, counting lines.
  void MoveTo(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(place_),
                                         source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    place_ = end;
  }

  std::string_view From(size_t place) const { return std::string_view(source_).substr(place); }
  size_t SkipSpace(size_t place) const { return source_.size() - StripLeft(From(place)).size(); }

  // The text before a tag without what the tag's sign strips. `sign` is '-', '+' or 0.
  std::string_view StripBefore(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return StripRight(text);
    if (sign == '+' || is_variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    if (start == 0 && !line_starting_) return text;
    if (StripRight(text.substr(start)).empty()) return text.substr(0, start);
    return text;
  }

  void EmitData(std::string_view text) {
    if (!text.empty()) Emit(TokenType::kData, std::string(text));
  }

  char SignAt(size_t place) const {
    const char c = place < source_.size() ? source_[place] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  // Where the "%}" of {% word %} stands if that tag is at `tag`, otherwise npos.
  size_t TagEnd(size_t tag, std::string_view word) const {
    size_t place = SkipSpace(tag + (SignAt(tag + 2) == '\0' ? 2 : 3));
    if (!At(place, word)) return std::string::npos;
    place = SkipSpace(place + word.size());
    if (SignAt(place) != '\0') ++place;
    return At(place, "%}") ? place : std::string::npos;
  }

  // Text up to a tag, and the tag.
  void LexData() {
    static constexpr std::string_view kOpeners = "%{#";
    size_t tag = source_.find('{', place_);
    while (tag != std::string::npos && kOpeners.find(source_[tag + 1]) == std::string_view::npos) {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string::npos) {
      EmitData(From(place_));
      MoveTo(source_.size());
      return;
    }
    const char opener = source_[tag + 1];
    const char sign = SignAt(tag + 2);
    const std::string_view text(source_.data() + place_, tag - place_);
    EmitData(StripBefore(text, sign, opener == '{'));
    MoveTo(tag);
    const size_t inside = tag + (sign == '\0' ? 2 : 3);
    line_starting_ = false;
    if (opener == '#') {
      MoveTo(inside);
      SkipComment();
      return;
    }
    const size_t raw = opener == '%' ? TagEnd(tag, "raw") : std::string::npos;
    if (raw != std::string::npos && SignAt(raw - 1) != '+') {
      EndTag(raw, SignAt(raw - 1) == '-', false);
      LexRaw();
      return;
    }
    Emit(opener == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin,
         source_.substr(tag, 2));
    MoveTo(inside);
    LexTag(opener == '{');
  }

  // Ends a tag at `place`, which is at its last two characters; `trim` drops a newline after it.
  void EndTag(size_t place, bool strip, bool trim) {
    place += 2;
    if (strip) {
      place = SkipSpace(place);
    } else if (trim && place < source_.size() && source_[place] == '\n') {
      ++place;
    }
    line_starting_ = source_[place - 1] == '\n';
    MoveTo(place);
  }

  void SkipComment() {
    if (place_ == source_.size()) return;  // Jinja takes "{#" as the last characters
    const size_t end = source_.find("#}", place_);
    if (end == std::string::npos) Error("a comment is not closed by #}");
    const char sign = end > place_ ? SignAt(end - 1) : '\0';
    EndTag(end, sign == '-', sign == '\0');
  }

  void LexRaw() {
    if (place_ == source_.size()) return;  // as with comments
    for (size_t tag = source_.find("{%", place_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      const size_t end = TagEnd(tag, "endraw");
      if (end == std::string::npos) continue;
      const std::string_view text(source_.data() + place_, tag - place_);
      EmitData(StripBefore(text, SignAt(tag + 2), false));
      EndTag(end, SignAt(end - 1) == '-', SignAt(end - 1) == '\0');
      return;
    }
    Error("a raw block is not closed by {% endraw %}");
  }

  // The end of the tag, if it is here and no bracket is open.
  bool LexTagEnd(bool is_variable) {
    if (!brackets_.empty()) return false;
    const std::string_view closer = is_variable ? "}}" : "%}";
    const TokenType type = is_variable ? TokenType::kVariableEnd : TokenType::kBlockEnd;
    const char sign = SignAt(place_);
    if (sign == '+' && is_variable) return false;
    const size_t place = place_ + (sign == '\0' ? 0 : 1);
    if (!At(place, closer)) return false;
    Emit(type, std::string(closer));
    EndTag(place, sign == '-', sign == '\0' && !is_variable);
    return true;
  }

  void LexTag(bool is_variable) {
    brackets_.clear();
    while (place_ < source_.size()) {
      if (LexTagEnd(is_variable)) return;
      const size_t after_space = SkipSpace(place_);
      if (after_space != place_) {
        MoveTo(after_space);
      } else if (!LexNumber() && !LexName() && !LexString()) {
        LexOperator();
      }
    }
  }

  bool LexNumber() {
    if (!IsDigit(source_[place_])) return false;
    const size_t digits = std::min(source_.find_first_not_of("0123456789", place_), source_.size());
    double value = 0;
    const char* const begin = source_.data() + place_;
    const auto read = std::from_chars(begin, source_.data() + source_.size(), value);
    // A point without digits behind it is that of an attribute.
    const bool is_whole = source_[digits] == '.' ? !IsDigit(source_[digits + 1])
                                                 : read.ptr == source_.data() + digits;
    const size_t end = is_whole ? digits : place_ + static_cast<size_t>(read.ptr - begin);
    const std::string text = source_.substr(place_, end - place_);
    const bool is_other_notation = is_whole && text.size() > 1 && text[0] == '0';
    if (is_other_notation || (end < source_.size() && IsNameChar(source_[end]))) {
      Error(NotSupported("number", source_.substr(place_, end - place_ + 1), "decimal numbers"));
    }
    Emit(TokenType::kNumber, text);
    if (is_whole) {
      const std::optional<Int> number = ParseInteger(text);
      if (!number) Error(StrCat("the integer ", text.substr(0, 40), " is larger than 127 bits"));
      tokens_.back().number = Value::Integer(*number);
    } else {
      tokens_.back().number = Value::Float(ParseFloat(text).value_or(0));
    }
    MoveTo(end);
    return true;
  }

  bool LexName() {
    const size_t end = source_.size() - StripLeft(From(place_), IsNameChar).size();
    if (end == place_) return false;
    constexpr size_t kNameBytesMax = 1024;
    if (end - place_ > kNameBytesMax) {
      Error(StrCat("a name is longer than ", kNameBytesMax, " bytes"));
    }
    Emit(TokenType::kName, source_.substr(place_, end - place_));
    MoveTo(end);
    return true;
  }

  // Appends what the escape sequence means whose backslash stands before `place`, by Python's
  // rules; returns the place after it. A backslash before any other character is a backslash.
  size_t Unescape(size_t place, size_t end, std::string* out) {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv";
    static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = source_[place];
    if (c == '\n') return place + 1;
    if (const size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      out->push_back(kMeanings[letter]);
      return place + 1;
    }
    if (IsDigit(c) || c == 'N') {
      Error(NotSupported("escape", StrCat("\\", c), "\\n, \\t, \\xXX, \\uXXXX and \\UXXXXXXXX"));
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      out->push_back('\\');
      return place;
    }
    uint32_t code_point = 0;
    const char* first = source_.data() + place + 1;
    const char* last = source_.data() + std::min(place + 1 + digits, end);
    const auto read = std::from_chars(first, last, code_point, 16);
    if (read.ptr != first + digits) Error(StrCat("a string has a truncated \\", c, " escape"));
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
      Error(StrCat("a string has the escape \\", source_.substr(place, digits + 1),
                   ", which is no character"));
    }
    AppendUtf8(code_point, out);
    return place + 1 + digits;
  }

  bool LexString() {
    const char quote = source_[place_];
    if (quote != '\'' && quote != '"') return false;
    size_t end = place_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) Error("a string is not closed");
    std::string text;
    for (size_t place = place_ + 1; place < end;) {
      if (source_[place] == '\\') {
        place = Unescape(place + 1, end, &text);
      } else {
        text.push_back(source_[place++]);
      }
    }
    Emit(TokenType::kString, std::move(text));
    MoveTo(end + 1);
    return true;
  }

  void LexOperator() {
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [this](std::string_view op) { return At(place_, op); });
    if (found == std::end(kOperators)) {
      Error(StrCat("unexpected character '", source_.substr(place_, Utf8LengthAt(source_, place_)),
                   "'"));
    }
    const char c = (*found)[0];
    static constexpr std::string_view kOpeners = "([{", kClosers = ")]}";
    if (const size_t kind = kOpeners.find(c); kind != std::string_view::npos) {
      brackets_.push_back(kClosers[kind]);
    }
    if (kClosers.find(c) != std::string_view::npos) {
      if (brackets_.empty()) Error(StrCat("unexpected '", c, "'"));
      if (brackets_.back() != c) {
        Error(StrCat("unexpected '", c, "', expected '", brackets_.back(), "'"));
      }
      brackets_.pop_back();
    }
    Emit(TokenType::kOperator, std::string(*found));
    MoveTo(place_ + found->size());
  }

  const std::string source_;
  size_t place_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // the closers expected
  std::vector<Token> tokens_;
};

}  // namespace

std::span<const std::string_view> Operators() { return kOperators; }

std::vector<Token> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace sluice::text::jinja
