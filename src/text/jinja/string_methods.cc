// str's methods. Positions in arguments and results count characters, not bytes.

#include <algorithm>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_format.h"
#include "text/jinja/string_parts.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

// ---- Case

template <std::string (*map)(std::string_view)>
Value MapCase(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound("str method", arguments, {}, 0);
  runtime.Work(self.text().size() * 8);
  return runtime.String(map(self.text()), self.markup());
}

// ---- Questions

template <bool (*holds)(char32_t)>
Value AllChars(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound("str method", arguments, {}, 0);
  runtime.Work(self.text().size() * 8);
  const std::string& text = self.text();
  for (size_t place = 0; place < text.size();) {
    if (!holds(DecodeUtf8(text, &place))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

bool IsAlphanumeric(char32_t c) {
  return IsAlpha(c) || IsDecimal(c) || IsDigitChar(c) || IsNumeric(c);
}

Value IsAscii(Runtime&, const Value& self, const Arguments& arguments) {
  Bound("isascii", arguments, {}, 0);
  return Value::Bool(self.chars() == self.text().size());
}

Value IsPrintableText(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound("isprintable", arguments, {}, 0);
  runtime.Work(self.text().size() * 8);
  for (size_t place = 0; place < self.text().size();) {
    if (!IsPrintable(DecodeUtf8(self.text(), &place))) return Value::Bool(false);
  }
  return Value::Bool(true);
}

Value IsIdentifier(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound("isidentifier", arguments, {}, 0);
  runtime.Work(self.text().size() * 8);
  const std::string& text = self.text();
  for (size_t place = 0; place < text.size();) {
    const bool first = place == 0;
    const char32_t c = DecodeUtf8(text, &place);
    if (!IsNameChar(c) || (first && c != '_' && !IsAlpha(c))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

template <bool upper>
Value IsCase(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound(upper ? "isupper" : "islower", arguments, {}, 0);
  runtime.Work(self.text().size() * 8);
  return Value::Bool(HasCase(self.text(), upper));
}

Value IsTitleText(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound("istitle", arguments, {}, 0);
  runtime.Work(self.text().size() * 8);
  bool any = false;
  bool after_cased = false;
  for (size_t place = 0; place < self.text().size();) {
    const char32_t c = DecodeUtf8(self.text(), &place);
    const bool upper = IsUpper(c) || IsTitle(c);
    if ((upper && after_cased) || (IsLower(c) && !after_cased)) return Value::Bool(false);
    after_cased = upper || IsLower(c);
    any = any || after_cased;
  }
  return Value::Bool(any);
}

// ---- Search

// The part of a string between two positions given as Python's start and end.
struct Window {
  std::string_view text;
  size_t first_char = 0;  // where it starts
  bool empty = false;     // start lies behind the end
};

Window MakeWindow(const Value& self, const Bound& bound, size_t start_place) {
  if (bound.IsNoneOrAbsent(start_place) && bound.IsNoneOrAbsent(start_place + 1)) {
    return {self.text(), 0, false};
  }
  const int64_t size = static_cast<int64_t>(self.chars());
  const auto resolve = [&](size_t place, int64_t fallback) {
    if (bound.IsNoneOrAbsent(place)) return fallback;
    int64_t at = bound.Integer(place, 0);
    if (at < 0) at = std::max<int64_t>(at + size, 0);
    return at;
  };
  const int64_t start = resolve(start_place, 0);
  const int64_t end = std::min(resolve(start_place + 1, size), size);
  Window window;
  if (start > end) {
    window.empty = true;
    return window;
  }
  const std::string_view text = self.text();
  const size_t from = Utf8Offset(text, static_cast<size_t>(start));
  const size_t bytes = Utf8Offset(text.substr(from), static_cast<size_t>(end - start));
  window.text = text.substr(from, bytes);
  window.first_char = static_cast<size_t>(start);
  return window;
}

template <bool last>
int64_t FindText(Runtime& runtime, std::string_view name, const Value& self,
                 const Arguments& arguments) {
  const Bound bound(name, arguments, {"sub", "start", "end"}, 1, kPositionalOnly);
  runtime.Work(self.text().size());
  const std::string& wanted = bound.Text(0);
  const Window window = MakeWindow(self, bound, 1);
  if (window.empty) return -1;
  const size_t at = last ? FindLastIn(window.text, wanted) : FindIn(window.text, wanted);
  if (at == std::string_view::npos) return -1;
  return static_cast<int64_t>(window.first_char + CountUtf8(window.text.substr(0, at)));
}

template <bool last>
Value Find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Value::Integer(FindText<last>(runtime, "find", self, arguments));
}

template <bool last>
Value IndexOf(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const int64_t at = FindText<last>(runtime, "index", self, arguments);
  if (at < 0) Fail("substring not found");
  return Value::Integer(at);
}

Value Count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1, kPositionalOnly);
  runtime.Work(self.text().size());
  const std::string& wanted = bound.Text(0);
  const Window window = MakeWindow(self, bound, 1);
  if (window.empty) return Value::Integer(0);
  if (wanted.empty()) return Value::Integer(static_cast<Int>(CountUtf8(window.text)) + 1);
  Int count = 0;
  for (size_t at = FindIn(window.text, wanted); at != std::string_view::npos;
       at = FindIn(window.text, wanted, at + wanted.size())) {
    ++count;
    runtime.Work(32);
  }
  return Value::Integer(count);
}

template <bool at_end>
bool TouchesEnd(Runtime& runtime, std::string_view text, const Value& affix,
                std::string_view method) {
  if (!affix.IsString()) {
    Fail(method, " needs a str or a tuple of str, not ", TypeName(affix));
  }
  const std::string& wanted = affix.text();
  if (wanted.size() > text.size()) return false;
  runtime.Work(wanted.size());
  return at_end ? text.substr(text.size() - wanted.size()) == wanted
                : text.substr(0, wanted.size()) == wanted;
}

template <bool at_end>
Value StartsOrEnds(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::string_view method = at_end ? "endswith()" : "startswith()";
  const Bound bound(method, arguments, {"affix", "start", "end"}, 1, kPositionalOnly);
  if (bound.Has(1)) runtime.Work(self.text().size());
  const Window window = MakeWindow(self, bound, 1);
  if (!bound[0].Is(Kind::kTuple)) {
    const bool holds = TouchesEnd<at_end>(runtime, window.text, bound[0], method);
    return Value::Bool(holds && !window.empty);
  }
  for (const Value& affix : bound[0].items()) {
    runtime.Step();
    if (TouchesEnd<at_end>(runtime, window.text, affix, method) && !window.empty)
      return Value::Bool(true);
  }
  return Value::Bool(false);
}

// ---- Parts

template <bool left, bool right>
Value StripEnds(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"}, 0, kPositionalOnly);
  return StripValue(runtime, self, bound.Or(0, Value()), left, right);
}

template <bool from_right>
Value Split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound(from_right ? "rsplit" : "split", arguments, {"sep", "maxsplit"}, 0);
  const int64_t limit = bound.Integer(1, -1);
  std::vector<std::string_view> parts;
  runtime.Work(self.text().size());
  if (bound.IsNoneOrAbsent(0)) {
    parts = from_right ? SplitSpaceFromRight(runtime, self.text(), limit)
                       : SplitSpace(runtime, self.text(), limit);
  } else {
    if (!bound[0].IsString()) Fail("split() needs a str or None, not ", TypeName(bound[0]));
    if (bound.Text(0).empty()) Fail("empty separator");
    parts = from_right ? SplitTextFromRight(runtime, self.text(), bound.Text(0), limit)
                       : SplitText(runtime, self.text(), bound.Text(0), limit);
  }
  return PartsToList(runtime, parts, self.markup());
}

Value SplitLinesMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"}, 0);
  runtime.Work(self.text().size());
  return PartsToList(runtime, SplitLines(runtime, self.text(), bound.Flag(0, false)),
                     self.markup());
}

template <bool from_right>
Value Partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"sep"}, 1, kPositionalOnly);
  const std::string& separator = bound.Text(0);
  if (separator.empty()) Fail("empty separator");
  const std::string& text = self.text();
  runtime.Work(text.size());
  const size_t at = from_right ? FindLastIn(text, separator) : FindIn(text, separator);
  const Value nothing = runtime.String("", self.markup());
  const Value whole = runtime.String(text, self.markup());
  if (at == std::string::npos) {
    return from_right ? runtime.Tuple({nothing, nothing, whole})
                      : runtime.Tuple({whole, nothing, nothing});
  }
  return runtime.Tuple({runtime.String(text.substr(0, at), self.markup()),
                        runtime.String(separator, self.markup()),
                        runtime.String(text.substr(at + separator.size()), self.markup())});
}

template <bool at_end>
Value RemoveAffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound(at_end ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1,
                    kPositionalOnly);
  const std::string& affix = bound.Text(0);
  if (affix.empty() || !TouchesEnd<at_end>(runtime, self.text(), bound[0], "removeprefix()"))
    return self;
  const size_t left = self.text().size() - affix.size();
  return runtime.String(self.text().substr(at_end ? 0 : affix.size(), left), self.markup());
}

// ---- New strings

Value Replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2, kPositionalOnly);
  bound.Text(0);
  const Value with = self.markup() ? Escape(runtime, bound[1]) : bound[1];
  if (!with.IsString()) Fail("replace() needs a str, not ", TypeName(with));
  return runtime.String(
      ReplaceText(runtime, self.text(), bound.Text(0), with.text(), bound.Integer(2, -1)),
      self.markup());
}

Value Join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1, kPositionalOnly);
  TextBuilder out(runtime);
  bool first = true;
  std::shared_ptr<Iterator> iterator = Iterate(runtime, bound[0]);
  Value item;
  while (iterator->Next(runtime, &item)) {
    if (!first) out.Append(self.text());
    first = false;
    if (self.markup()) {
      item = Escape(runtime, item);
    } else if (!item.IsString()) {
      Fail("join() found an item of type ", TypeName(item), " where it needs a str");
    }
    out.Append(item.text());
  }
  return out.Finish(self.markup());
}

// How a string is padded to a width: what goes to the left of it.
enum class Justify { kLeft, kRight, kCenter };

template <Justify justify>
Value Justified(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("justify", arguments, {"width", "fillchar"}, 1, kPositionalOnly);
  const int64_t width = bound.Integer(0, 0);
  const Value fill = bound.Or(1, Value::Constant(" "));
  if (!fill.IsString() || fill.chars() != 1) Fail("the fill character must be one character");
  const int64_t missing = width - static_cast<int64_t>(self.chars());
  if (missing <= 0) return self;
  const size_t padding = static_cast<size_t>(missing);
  size_t left = 0;
  if (justify == Justify::kRight) left = padding;
  if (justify == Justify::kCenter) left = padding / 2 + (missing & width & 1);
  TextBuilder out(runtime);
  out.AppendRepeated(fill.text(), left);
  out.Append(self.text());
  out.AppendRepeated(fill.text(), padding - left);
  return out.Finish(self.markup());
}

Value FillZeros(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"width"}, 1, kPositionalOnly);
  const int64_t missing = bound.Integer(0, 0) - static_cast<int64_t>(self.chars());
  if (missing <= 0) return self;
  const std::string& text = self.text();
  const size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  TextBuilder out(runtime);
  out.Append(std::string_view(text).substr(0, sign));
  out.AppendRepeated("0", static_cast<size_t>(missing));
  out.Append(std::string_view(text).substr(sign));
  return out.Finish(self.markup());
}

Value ExpandTabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("expandtabs", arguments, {"tabsize"}, 0);
  const int64_t size = bound.Integer(0, 8);
  runtime.Work(self.text().size() * 4);
  TextBuilder out(runtime);
  int64_t column = 0;
  for (char c : self.text()) {
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out.AppendRepeated(" ", static_cast<size_t>(spaces));
      column += spaces;
      continue;
    }
    if (!IsUtf8Continuation(c)) ++column;
    if (c == '\n' || c == '\r') column = 0;
    out.Append(c);
  }
  return out.Finish(self.markup());
}

Value FormatMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return BraceFormat(runtime, self, arguments);
}

Value FormatMapMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("format_map", arguments, {"mapping"}, 1, kPositionalOnly);
  return BraceFormatMap(runtime, self, bound[0]);
}

Value Unsupported(Runtime&, const Value&, const Arguments&) {
  Fail("the str methods encode, maketrans and translate are not supported");
}

constexpr Method kMethods[] = {
    {"capitalize", MapCase<Capitalize>},
    {"casefold", MapCase<CaseFold>},
    {"center", Justified<Justify::kCenter>},
    {"count", Count},
    {"encode", Unsupported},
    {"endswith", StartsOrEnds<true>},
    {"expandtabs", ExpandTabs},
    {"find", Find<false>},
    {"format", FormatMethod},
    {"format_map", FormatMapMethod},
    {"index", IndexOf<false>},
    {"isalnum", AllChars<IsAlphanumeric>},
    {"isalpha", AllChars<IsAlpha>},
    {"isascii", IsAscii},
    {"isdecimal", AllChars<IsDecimal>},
    {"isdigit", AllChars<IsDigitChar>},
    {"isidentifier", IsIdentifier},
    {"islower", IsCase<false>},
    {"isnumeric", AllChars<IsNumeric>},
    {"isprintable", IsPrintableText},
    {"isspace", AllChars<IsSpace>},
    {"istitle", IsTitleText},
    {"isupper", IsCase<true>},
    {"join", Join},
    {"ljust", Justified<Justify::kLeft>},
    {"lower", MapCase<ToLower>},
    {"lstrip", StripEnds<true, false>},
    {"maketrans", Unsupported},
    {"partition", Partition<false>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", Replace},
    {"rfind", Find<true>},
    {"rindex", IndexOf<true>},
    {"rjust", Justified<Justify::kRight>},
    {"rpartition", Partition<true>},
    {"rsplit", Split<true>},
    {"rstrip", StripEnds<false, true>},
    {"split", Split<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", StartsOrEnds<false>},
    {"strip", StripEnds<true, true>},
    {"swapcase", MapCase<SwapCase>},
    {"title", MapCase<ToTitle>},
    {"translate", Unsupported},
    {"upper", MapCase<ToUpper>},
    {"zfill", FillZeros},
};

}  // namespace

std::span<const Method> StringMethods() { return kMethods; }

const Method* FindStringMethod(std::string_view name) {
  const auto found = std::lower_bound(
      std::begin(kMethods), std::end(kMethods), name,
      [](const Method& method, std::string_view wanted) { return method.name < wanted; });
  return found != std::end(kMethods) && found->name == name ? found : nullptr;
}

}  // namespace sluice::text::jinja
