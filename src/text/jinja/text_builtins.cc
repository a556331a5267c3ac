// The filters whose subject is a string, and str's methods. Positions in arguments and results
// count characters, not bytes.

#include <algorithm>
#include <charconv>
#include <span>

#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/unicode/python_str.h"

namespace sluice::text::jinja {
namespace {

// ---- Filters and methods alike: a filter takes any value as the string that it prints as, and the
// self of a method is a string already.

template <std::string (*map)(std::string_view)>
Value MapCase(Runtime& runtime, const Value& self, const Bound&) {
  const Value text = SoftString(runtime, self);
  runtime.Work(text.text().size() * 8);
  return runtime.String(map(text.text()), text.markup());
}

template <bool left, bool right>
Value Strip(Runtime& runtime, const Value& self, const Bound& bound) {
  return StripValue(runtime, SoftString(runtime, self), bound.Or(0, Value()), left, right);
}

// ---- Filters

Value ReplaceFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  const int64_t count = bound.IsNoneOrAbsent(2) ? -1 : bound.Integer(2, -1);
  return runtime.String(ReplaceText(runtime, ToString(runtime, self), ToString(runtime, bound[0]),
                                    ToString(runtime, bound[1]), count));
}

Value Indent(Runtime& runtime, const Value& self, const Bound& bound) {
  if (self.IsUndefined()) Fail(self.undefined_message());
  if (!self.IsString()) Fail("indent needs a str, not ", TypeName(self));
  const std::string indent = ReadIndent(runtime, bound.Or(0, Value::Integer(4)));
  const bool blank = bound.Flag(2, false);
  runtime.Work(self.text().size() * 2);
  const std::string text = self.text() + "\n";
  TextBuilder out(runtime);
  if (bound.Flag(1, false)) out.Append(indent);
  bool first = true;
  for (std::string_view line : SplitLines(runtime, text, false)) {
    if (!first) {
      out.Append('\n');
      if (blank || !line.empty()) out.Append(indent);
    }
    first = false;
    out.Append(line);
  }
  return out.Finish(self.markup());
}

Value Safe(Runtime& runtime, const Value& self, const Bound&) {
  return self.markup() ? self : runtime.String(ToString(runtime, self), true);
}

Value EscapeFilter(Runtime& runtime, const Value& self, const Bound&) {
  return Escape(runtime, self);
}

Value StringFilter(Runtime& runtime, const Value& self, const Bound&) {
  return SoftString(runtime, self);
}

constexpr Builtin kTextFilters[] = {
    {"capitalize", MapCase<Capitalize>},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"indent", Indent, {"width", "first", "blank"}},
    {"lower", MapCase<ToLower>},
    {"replace", ReplaceFilter, {"old", "new", "count"}, 2},
    {"safe", Safe},
    {"string", StringFilter},
    {"title", MapCase<TitleWords>},
    {"tojson", ToJson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", Strip<true, true>, {"chars"}},
    {"upper", MapCase<ToUpper>},
};

// ---- Methods

template <bool at_end>
Value StartsOrEnds(Runtime& runtime, const Value& self, const Bound& bound) {
  const std::string& text = self.text();
  const bool is_tuple = bound[0].Is(Kind::kTuple);
  for (const Value& affix : is_tuple ? std::span(bound[0].items()) : std::span(&bound[0], 1)) {
    if (!affix.IsString()) {
      Fail(at_end ? "endswith()" : "startswith()", " needs a str or a tuple of str, not ",
           TypeName(affix));
    }
    runtime.Step();
    runtime.Work(std::min(affix.text().size(), text.size()));
    const bool is_there = at_end ? text.ends_with(affix.text()) : text.starts_with(affix.text());
    if (is_there) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool from_right>
Value Split(Runtime& runtime, const Value& self, const Bound& bound) {
  const std::string_view text = self.text();
  const int64_t limit = bound.Integer(1, -1);
  runtime.Work(text.size() * kSearchWork);
  if (bound.IsNoneOrAbsent(0)) {
    if (from_right && limit >= 0) {
      Fail("rsplit() with a maxsplit alone is not supported; chat templates may use a separator");
    }
    return PartsToList(runtime, SplitSpace(runtime, text, limit), self.markup());
  }
  const std::string& separator = bound.Text(0);
  if (separator.empty()) Fail("empty separator");
  return PartsToList(runtime,
                     from_right ? SplitTextFromRight(runtime, text, separator, limit)
                                : SplitText(runtime, text, separator, limit),
                     self.markup());
}

Value SplitLinesMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  runtime.Work(self.text().size());
  return PartsToList(runtime, SplitLines(runtime, self.text(), bound.Flag(0, false)),
                     self.markup());
}

Value Replace(Runtime& runtime, const Value& self, const Bound& bound) {
  const std::string& old = bound.Text(0);
  bound.Text(1);
  const Value with = self.markup() ? Escape(runtime, bound[1]) : bound[1];
  return runtime.String(ReplaceText(runtime, self.text(), old, with.text(), bound.Integer(2, -1)),
                        self.markup());
}

Value JoinText(Runtime& runtime, const Value& self, const Bound& bound) {
  TextBuilder out(runtime);
  bool first = true;
  for (const Value& item : Collect(runtime, bound[0])) {
    if (!first) out.Append(self.text());
    first = false;
    if (!self.markup() && !item.IsString()) {
      Fail("join() found an item of type ", TypeName(item), " where it needs a str");
    }
    out.Append(self.markup() ? Escape(runtime, item) : item);
  }
  return out.Finish(self.markup());
}

// The argument that the inside of a replacement field of str.format names.
const Value& FieldArgument(std::string_view field, const Arguments& arguments, size_t* next) {
  if (field.find_first_of(":!.[{") != std::string_view::npos) {
    Fail("format() has the field '{", Utf8Prefix(field, kQuotedBytesMax),
         "}', which is not supported; chat templates may use {}, {0} and {name}");
  }
  for (const auto& [name, value] : arguments.named) {
    if (name == field) return value;
  }
  size_t place = 0;
  constexpr size_t kNumbered = ~size_t{0};
  if (field.empty() ? *next == kNumbered : *next != 0 && *next != kNumbered) {
    Fail("format() has both {} and fields with numbers");
  }
  if (field.empty()) {
    place = (*next)++;
  } else {
    const auto read = std::from_chars(field.data(), field.data() + field.size(), place);
    const bool is_number = read.ec == std::errc() && read.ptr == field.data() + field.size();
    if (!is_number) Fail("format() has no argument '", Utf8Prefix(field, kQuotedBytesMax), "'");
    *next = kNumbered;
  }
  if (place >= arguments.positional.size()) {
    Fail("format() has ", arguments.positional.size(), " arguments, too few for its fields");
  }
  return arguments.positional[place];
}

Value Format(Runtime& runtime, const Value& self, const Bound& bound) {
  const std::string_view format = self.text();
  TextBuilder out(runtime);
  size_t next = 0;
  for (size_t place = 0; place < format.size();) {
    const size_t brace = std::min(format.find_first_of("{}", place), format.size());
    out.Append(format.substr(place, brace - place));
    if (brace == format.size()) break;
    place = brace + 1;
    if (place < format.size() && format[place] == format[brace]) {
      out.Append(format[place++]);
      continue;
    }
    const size_t end = format.find('}', place);
    if (format[brace] == '}' || end == std::string_view::npos) {
      Fail("format() found a single '", format[brace], "'");
    }
    runtime.Step(1 + bound.all().named.size());
    const Value& value = FieldArgument(format.substr(place, end - place), bound.all(), &next);
    out.Append((self.markup() ? Escape(runtime, value) : SoftString(runtime, value)).text());
    place = end + 1;
  }
  return out.Finish(self.markup());
}

constexpr Builtin kMethods[] = {
    {"capitalize", MapCase<Capitalize>},
    {"endswith", StartsOrEnds<true>, {"suffix"}, 1},
    {"format", Format, {}, kAnyArguments},
    {"join", JoinText, {"iterable"}, 1},
    {"lower", MapCase<ToLower>},
    {"lstrip", Strip<true, false>, {"chars"}},
    {"replace", Replace, {"old", "new", "count"}, 2},
    {"rsplit", Split<true>, {"sep", "maxsplit"}},
    {"rstrip", Strip<false, true>, {"chars"}},
    {"split", Split<false>, {"sep", "maxsplit"}},
    {"splitlines", SplitLinesMethod, {"keepends"}},
    {"startswith", StartsOrEnds<false>, {"prefix"}, 1},
    {"strip", Strip<true, true>, {"chars"}},
    {"title", MapCase<ToTitle>},
    {"upper", MapCase<ToUpper>},
};

}  // namespace

Builtins TextFilters() { return kTextFilters; }
Builtins StringMethods() { return kMethods; }

}  // namespace sluice::text::jinja
