// Values as text: str() and repr(), and tojson (json.dumps with the arguments that transformers
// gives it).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/restore.h"
#include "text/unicode/python_str.h"

namespace sluice::text::jinja {
namespace {

// Namespaces can hold each other, which their depth does not show.
constexpr int kPrintDepthMax = 200;

struct PrintStyle {
  bool json = false;  // else repr()
  bool ascii = false;
  bool sort_keys = false;
  std::array<std::string_view, 3> words = {"None", "False", "True"};
  std::optional<std::string> indent;  // of one level; nothing: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

class Printer {
 public:
  Printer(Runtime& runtime, const PrintStyle& style)
      : runtime_(runtime), style_(style), out_(runtime) {}

  TextBuilder& out() { return out_; }

  void Print(const Value& value) {
    runtime_.Step();
    switch (value.kind()) {
      case Kind::kNone:
        return out_.Append(style_.words[0]);
      case Kind::kBool:
        return out_.Append(style_.words[value.boolean() ? 2 : 1]);
      case Kind::kInt:
        return out_.Append(fmt::to_string(value.integer()));
      case Kind::kFloat:
        return out_.Append(FloatText(value.real()));
      case Kind::kString:
        return PrintString(value);
      case Kind::kList:
        return PrintItems(value.items(), "[", "]");
      case Kind::kTuple:
        if (style_.json) return PrintItems(value.items(), "[", "]");
        return PrintItems(value.items(), "(", value.items().size() == 1 ? ",)" : ")");
      case Kind::kDict:
        return PrintDict(value.dict(), "{", "}");
      default:
        if (style_.json) Fail("object of type ", TypeName(value), " is not JSON serializable");
        return PrintObject(value);
    }
  }

 private:
  std::string FloatText(double value) const {
    if (!style_.json || std::isfinite(value)) return FormatFloat(value);
    return std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
  }

  // ---- Strings

  // A character by its number.
  void AppendNumbered(uint32_t c) {
    if (!style_.json && c < 0x100) return out_.Append(fmt::format("\\x{:02x}", c));
    if (c < 0x10000) return out_.Append(fmt::format("\\u{:04x}", c));
    if (!style_.json) return out_.Append(fmt::format("\\U{:08x}", c));
    out_.Append(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                            0xDC00 + ((c - 0x10000) & 0x3FF)));
  }

  void PrintString(const Value& value) {
    if (style_.json) return PrintQuoted(value.text(), '"');
    if (value.markup()) out_.Append("Markup(");
    PrintQuoted(value.text(), ReprQuote(value.text()));
    if (value.markup()) out_.Append(')');
  }

  static char ReprQuote(std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    return has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  }

  void PrintQuoted(std::string_view text, char quote) {
    // repr() writes the last two by their numbers.
    static constexpr std::string_view kEscaped = "\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\\nrtfb";
    const std::string_view escaped = kEscaped.substr(0, style_.json ? 6 : 4);
    runtime_.Work(text.size());
    out_.Append(quote);
    size_t plain = 0;
    for (size_t place = 0; place < text.size();) {
      const size_t start = place;
      const char32_t c = DecodeUtf8(text, &place);
      const bool is_special = c == '\\' || c == static_cast<char32_t>(quote);
      const bool is_plain = style_.json ? c >= 0x20 && (!style_.ascii || c < 0x7F) : IsPrintable(c);
      if (is_plain && !is_special) continue;
      out_.Append(text.substr(plain, start - plain));
      plain = place;
      const size_t found = c < 0x80 ? escaped.find(static_cast<char>(c)) : std::string_view::npos;
      if (is_special || found != std::string_view::npos) {
        out_.Append('\\');
        out_.Append(is_special ? static_cast<char>(c) : kLetters[found]);
      } else {
        AppendNumbered(c);
      }
    }
    out_.Append(text.substr(plain));
    out_.Append(quote);
  }

  // ---- Containers; recursion is bounded here and by the depth that values may have

  void NewLine(int level) {
    if (!style_.indent) return;
    out_.Append('\n');
    out_.AppendRepeated(*style_.indent, static_cast<size_t>(level));
  }

  // Prints `count` parts between two brackets by `print_part(index)`.
  template <class PrintPart>
  void PrintParts(size_t count, std::string_view open, std::string_view close,
                  PrintPart print_part) {
    if (level_ >= kPrintDepthMax) Fail("a value is nested too deep to print");
    const Restore<int> restore(&level_, level_ + 1);
    out_.Append(open);
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_.Append(style_.item_separator);
      NewLine(level_);
      print_part(i);
    }
    if (count > 0) NewLine(level_ - 1);
    out_.Append(close);
  }

  void PrintItems(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    PrintParts(items.size(), open, close, [&](size_t i) { Print(items[i]); });
  }

  void PrintDict(const DictEntries& dict, std::string_view open, std::string_view close) {
    std::vector<const DictEntries::Entry*> entries;
    entries.reserve(dict.entries.size());
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* a, const auto* b) {
        return Less(runtime_, a->first, b->first);
      });
    }
    PrintParts(entries.size(), open, close, [&](size_t i) {
      PrintKey(entries[i]->first);
      out_.Append(style_.key_separator);
      Print(entries[i]->second);
    });
  }

  // JSON has no other keys than strings; json.dumps writes what else is simple as one.
  void PrintKey(const Value& key) {
    const bool is_simple = key.IsNone() || key.IsNumber();
    if (!style_.json || key.IsString()) return Print(key);
    if (!is_simple) {
      Fail("tojson needs dict keys that are str, int, float, bool or None, not ", TypeName(key));
    }
    out_.Append('"');
    Print(key);
    out_.Append('"');
  }

  // ---- Objects that have a repr() alone

  void PrintObject(const Value& value) {
    if (value.IsUndefined()) return out_.Append("Undefined");
    if (value.Is(Kind::kView)) {
      return PrintItems(Collect(runtime_, value), StrCat(TypeName(value), "(["), "])");
    }
    if (value.Is(Kind::kRange)) {
      const RangeObject& range = value.As<RangeObject>();
      out_.Append(StrCat("range(", range.start, ", ", range.stop));
      if (range.step != 1) out_.Append(StrCat(", ", range.step));
      return out_.Append(')');
    }
    if (value.Is(Kind::kNamespace)) {
      return PrintDict(value.As<NamespaceObject>(), "<Namespace {", "}>");
    }
    // Those whose text in Python has an address print without it.
    out_.Append(StrCat("<", TypeName(value), " object>"));
  }

  Runtime& runtime_;
  const PrintStyle& style_;
  TextBuilder out_;
  int level_ = 0;
};

}  // namespace

std::string Repr(Runtime& runtime, const Value& value) {
  static const PrintStyle kStyle;
  Printer printer(runtime, kStyle);
  printer.Print(value);
  runtime.Work(printer.out().text().size());
  return printer.out().Take();
}

std::string ToString(Runtime& runtime, const Value& value) {
  if (value.IsString()) {
    runtime.Work(value.text().size());
    return value.text();
  }
  if (value.IsUndefined()) return "";
  return Repr(runtime, value);
}

Value SoftString(Runtime& runtime, const Value& value) {
  return value.IsString() ? value : runtime.String(ToString(runtime, value));
}

Value Escape(Runtime& runtime, const Value& value) {
  static constexpr std::string_view kSpecial = "&<>'\"";
  static constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  if (value.markup()) return value;
  TextBuilder out(runtime);
  for (char c : ToString(runtime, value)) {
    const size_t found = kSpecial.find(c);
    out.Append(found == std::string_view::npos ? std::string_view(&c, 1) : kEntities[found]);
  }
  return out.Finish(true);
}

std::string ReadIndent(Runtime& runtime, const Value& indent) {
  if (indent.IsString()) return indent.text();
  TextBuilder spaces(runtime);
  spaces.AppendRepeated(" ", static_cast<size_t>(std::max<int64_t>(Index(indent), 0)));
  return spaces.Take();
}

Value ToJson(Runtime& runtime, const Value& self, const Bound& bound) {
  PrintStyle style;
  style.json = true;
  style.words = {"null", "false", "true"};
  style.ascii = bound.Flag(0, false);
  style.sort_keys = bound.Flag(3, false);
  if (!bound.IsNoneOrAbsent(1)) {
    style.indent = ReadIndent(runtime, bound[1]);
    style.item_separator = std::string(",");
  }
  if (!bound.IsNoneOrAbsent(2)) {
    const std::vector<Value> separators = Collect(runtime, bound[2]);
    if (separators.size() != 2 || !separators[0].IsString() || !separators[1].IsString()) {
      Fail("tojson needs two strings as separators");
    }
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  Printer printer(runtime, style);
  printer.Print(self);
  return printer.out().Finish();
}

}  // namespace sluice::text::jinja
