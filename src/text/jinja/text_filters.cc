// Filters whose subject is a string.

#include <algorithm>
#include <cstdio>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_format.h"
#include "text/jinja/string_parts.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

template <std::string (*map)(std::string_view)>
Value MapCase(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("case filter", arguments, {}, 0);
  const Value text = SoftString(runtime, subject);
  runtime.Work(text.text().size() * 8);
  return runtime.String(map(text.text()), text.markup());
}

// Jinja's title: words start behind these characters alone, not behind every non-letter.
std::string TitleWords(std::string_view text) {
  std::string out;
  size_t word = 0;
  const auto flush = [&](size_t end) {
    if (end <= word) return;
    const size_t first = Utf8LengthAt(text, word);
    out += ToUpper(text.substr(word, first));
    out += ToLower(text.substr(word + first, end - word - first));
  };
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    const char32_t c = DecodeUtf8(text, &place);
    const bool separates = c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || IsSpace(c);
    if (!separates) continue;
    flush(start);
    out += text.substr(start, place - start);
    word = place;
  }
  flush(text.size());
  return out;
}

Value Trim(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"}, 0);
  return StripValue(runtime, SoftString(runtime, subject), bound.Or(0, Value()), true, true);
}

Value Replace(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const int64_t count = bound.IsNoneOrAbsent(2) ? -1 : bound.Integer(2, -1);
  return runtime.String(ReplaceText(runtime, ToString(runtime, subject),
                                    ToString(runtime, bound[0]), ToString(runtime, bound[1]),
                                    count));
}

Value Center(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"}, 0);
  const Value text = SoftString(runtime, subject);
  const int64_t width = bound.Integer(0, 80);
  const int64_t missing = width - static_cast<int64_t>(text.chars());
  if (missing <= 0) return text;
  const size_t padding = static_cast<size_t>(missing);
  const size_t left = padding / 2 + (padding & static_cast<size_t>(width) & 1);
  TextBuilder out(runtime);
  out.AppendRepeated(" ", left);
  out.Append(text.text());
  out.AppendRepeated(" ", padding - left);
  return out.Finish(text.markup());
}

Value Indent(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"}, 0);
  std::string indent;
  if (bound.Has(0) && bound[0].IsString()) {
    indent = bound.Text(0);
  } else {
    TextBuilder spaces(runtime);
    spaces.AppendRepeated(" ", static_cast<size_t>(std::max<int64_t>(bound.Integer(0, 4), 0)));
    indent = spaces.Take();
  }
  if (subject.IsUndefined()) Fail(subject.undefined_message());
  if (!subject.IsString()) Fail("indent needs a str, not ", TypeName(subject));
  const bool blank = bound.Flag(2, false);
  runtime.Work(subject.text().size() * 2);
  const std::string text = subject.text() + "\n";
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
  return out.Finish(subject.markup());
}

Value Truncate(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"}, 0);
  const int64_t length = bound.Integer(0, 255);
  const Value end = bound.Or(2, Value::Constant("..."));
  const int64_t leeway = bound.IsNoneOrAbsent(3) ? 5 : bound.Integer(3, 5);
  const int64_t end_chars = LengthOf(end);
  if (length < end_chars) Fail("truncate needs a length of at least ", end_chars);
  if (leeway < 0) Fail("truncate needs a leeway of at least 0");
  // Not length + leeway, which could overflow.
  if (LengthOf(subject) - leeway <= length) return subject;
  if (!subject.IsString() || !end.IsString()) Fail("truncate needs a str");
  const size_t kept = static_cast<size_t>(length - end_chars);
  runtime.Work(subject.text().size());
  std::string text = subject.text().substr(0, Utf8Offset(subject.text(), kept));
  if (!bound.Flag(1, false)) {
    if (const size_t space = text.rfind(' '); space != std::string::npos) text.resize(space);
  }
  return Binary(runtime, BinaryOp::kAdd, runtime.String(std::move(text), subject.markup()), end);
}

Value WordCount(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("wordcount", arguments, {}, 0);
  const Value text = SoftString(runtime, subject);
  runtime.Work(text.text().size() * 8);
  Int words = 0;
  bool in_word = false;
  for (size_t place = 0; place < text.text().size();) {
    const bool is_word = IsWordChar(DecodeUtf8(text.text(), &place));
    if (is_word && !in_word) ++words;
    in_word = is_word;
  }
  return Value::Integer(words);
}

Value Format(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    Fail("format cannot handle positional and keyword arguments at the same time");
  }
  const Value text = SoftString(runtime, subject);
  if (arguments.named.empty()) {
    return PercentFormat(runtime, text, runtime.Tuple(arguments.positional));
  }
  DictBuilder named(runtime);
  for (const auto& [name, value] : arguments.named) named.Set(runtime.String(name), value);
  return PercentFormat(runtime, text, named.Finish());
}

Value SafeFilter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("safe", arguments, {}, 0);
  if (subject.markup()) return subject;
  return runtime.String(ToString(runtime, subject), true);
}

Value EscapeFilter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("escape", arguments, {}, 0);
  return Escape(runtime, subject);
}

Value ForceEscape(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("forceescape", arguments, {}, 0);
  return runtime.String(EscapeHtml(runtime, ToString(runtime, subject)), true);
}

Value StringFilter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("string", arguments, {}, 0);
  return SoftString(runtime, subject);
}

void AppendQuoted(std::string_view text, bool for_query, TextBuilder* out) {
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out->Append(c);
    } else if (c == ' ' && for_query) {
      out->Append('+');
    } else {
      char code[8];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(c) & 0xFF);
      out->Append(code);
    }
  }
}

Value UrlEncode(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("urlencode", arguments, {}, 0);
  TextBuilder out(runtime);
  if (subject.IsString() || !IsIterable(subject)) {
    AppendQuoted(ToString(runtime, subject), false, &out);
    return out.Finish();
  }
  const Value pairs = subject.Is(Kind::kDict) ? runtime.View(subject, ViewKind::kItems) : subject;
  std::shared_ptr<Iterator> iterator = Iterate(runtime, pairs);
  Value item;
  bool first = true;
  while (iterator->Next(runtime, &item)) {
    const std::vector<Value> pair = Collect(runtime, item);
    if (pair.size() != 2) Fail("urlencode needs pairs of key and value");
    if (!first) out.Append('&');
    first = false;
    AppendQuoted(ToString(runtime, pair[0]), true, &out);
    out.Append('=');
    AppendQuoted(ToString(runtime, pair[1]), true, &out);
  }
  return out.Finish();
}

Value XmlAttributes(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("xmlattr", arguments, {"autospace"}, 0);
  if (subject.IsUndefined()) Fail(subject.undefined_message());
  if (!subject.Is(Kind::kDict)) Fail("xmlattr needs a dict, not ", TypeName(subject));
  TextBuilder out(runtime);
  for (const auto& [key, value] : subject.dict().entries) {
    runtime.Step();
    if (value.IsNone() || value.IsUndefined()) continue;
    if (!key.IsString()) Fail("xmlattr needs keys that are str, not ", TypeName(key));
    if (key.text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      Fail("invalid character in attribute name: ", Repr(runtime, key));
    }
    if (!out.text().empty() || bound.Flag(0, true)) out.Append(' ');
    out.Append(StrCat(Escape(runtime, key).text(), "=\"", Escape(runtime, value).text(), "\""));
  }
  return out.Finish();
}

Value Refused(Runtime&, const Value&, const Arguments&) {
  Fail("the filters random, urlize, wordwrap, striptags and pprint are not supported");
}

constexpr FilterEntry kFilters[] = {
    {"capitalize", MapCase<Capitalize>},
    {"center", Center},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"forceescape", ForceEscape},
    {"format", Format},
    {"indent", Indent},
    {"lower", MapCase<ToLower>},
    {"pprint", Refused},
    {"random", Refused},
    {"replace", Replace},
    {"safe", SafeFilter},
    {"string", StringFilter},
    {"striptags", Refused},
    {"title", MapCase<TitleWords>},
    {"tojson", ToJson},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", MapCase<ToUpper>},
    {"urlencode", UrlEncode},
    {"urlize", Refused},
    {"wordcount", WordCount},
    {"wordwrap", Refused},
    {"xmlattr", XmlAttributes},
};

}  // namespace

std::span<const FilterEntry> TextFilters() { return kFilters; }

}  // namespace sluice::text::jinja
