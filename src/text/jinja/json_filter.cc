// tojson: json.dumps with the arguments that transformers gives it.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

struct JsonStyle {
  bool ascii = false;
  std::optional<std::string> indent;  // of one level; nothing: all on one line
  std::string item_separator;
  std::string key_separator;
  bool sort_keys = false;
};

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style), out_(runtime) {}

  Value Run(const Value& value) {
    Write(value, 0);
    return out_.Finish();
  }

 private:
  void WriteUnit(unsigned unit) {
    char code[16];
    std::snprintf(code, sizeof code, "\\u%04x", unit);
    out_.Append(code);
  }

  void WriteCode(char32_t c) {
    if (c < 0x10000) return WriteUnit(static_cast<unsigned>(c));
    const unsigned rest = static_cast<unsigned>(c) - 0x10000;
    WriteUnit(0xD800 + (rest >> 10));
    WriteUnit(0xDC00 + (rest & 0x3FF));
  }

  void WriteString(std::string_view text) {
    runtime_.Work(text.size());
    out_.Append('"');
    size_t plain = 0;
    for (size_t place = 0; place < text.size();) {
      const size_t start = place;
      const char32_t c = DecodeUtf8(text, &place);
      const bool escaped = c < 0x20 || c == '"' || c == '\\' || (style_.ascii && c > 0x7E);
      if (!escaped) continue;
      out_.Append(text.substr(plain, start - plain));
      plain = place;
      static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
      static constexpr std::string_view kTo = "\"\\nrtfb";
      const size_t found = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
      if (found != std::string_view::npos) {
        out_.Append('\\');
        out_.Append(kTo[found]);
      } else {
        WriteCode(c);
      }
    }
    out_.Append(text.substr(plain));
    out_.Append('"');
  }

  static std::string FloatText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FormatFloat(value);
  }

  std::string KeyText(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return key.text();
      case Kind::kFloat:
        return FloatText(key.real());
      case Kind::kBool:
        return key.boolean() ? "true" : "false";
      case Kind::kInt:
        return FormatInteger(key.integer());
      case Kind::kNone:
        return "null";
      default:
        Fail("tojson needs dict keys that are str, int, float, bool or None, not ", TypeName(key));
    }
  }

  void NewLine(int level) {
    if (!style_.indent) return;
    out_.Append('\n');
    out_.AppendRepeated(*style_.indent, static_cast<size_t>(level));
  }

  void WriteList(const std::vector<Value>& items, int level) {
    if (items.empty()) return out_.Append("[]");
    out_.Append('[');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.Append(style_.item_separator);
      NewLine(level + 1);
      Write(items[i], level + 1);
    }
    NewLine(level);
    out_.Append(']');
  }

  void WriteDict(const DictObject& dict, int level) {
    if (dict.entries.empty()) return out_.Append("{}");
    std::vector<const DictObject::Entry*> entries;
    entries.reserve(dict.entries.size());
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* a, const auto* b) {
        return Less(runtime_, a->first, b->first);
      });
    }
    out_.Append('{');
    bool first = true;
    for (const DictObject::Entry* entry : entries) {
      if (!first) out_.Append(style_.item_separator);
      first = false;
      NewLine(level + 1);
      WriteString(KeyText(entry->first));
      out_.Append(style_.key_separator);
      Write(entry->second, level + 1);
    }
    NewLine(level);
    out_.Append('}');
  }

  // Recursion is bounded by the depth that values may have.
  void Write(const Value& value, int level) {
    runtime_.Step();
    switch (value.kind()) {
      case Kind::kNone:
        return out_.Append("null");
      case Kind::kBool:
        return out_.Append(value.boolean() ? "true" : "false");
      case Kind::kInt:
        return out_.Append(FormatInteger(value.integer()));
      case Kind::kFloat:
        return out_.Append(FloatText(value.real()));
      case Kind::kString:
        return WriteString(value.text());
      case Kind::kList:
      case Kind::kTuple:
        return WriteList(value.items(), level);
      case Kind::kDict:
        return WriteDict(value.dict(), level);
      default:
        Fail("object of type ", TypeName(value), " is not JSON serializable");
    }
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder out_;
};

std::optional<std::string> ReadIndent(Runtime& runtime, const Bound& bound) {
  if (bound.IsNoneOrAbsent(2)) return std::nullopt;
  if (bound[2].IsString()) return bound.Text(2);
  TextBuilder spaces(runtime);
  spaces.AppendRepeated(" ", static_cast<size_t>(std::max<int64_t>(bound.Integer(2, 0), 0)));
  return spaces.Take();
}

}  // namespace

Value ToJson(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Arguments all;
  all.positional.push_back(subject);
  all.positional.insert(all.positional.end(), arguments.positional.begin(),
                        arguments.positional.end());
  all.named = arguments.named;
  const Bound bound("tojson", all, {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ascii = bound.Flag(1, false);
  style.indent = ReadIndent(runtime, bound);
  style.sort_keys = bound.Flag(4, false);
  style.item_separator = style.indent ? "," : ", ";
  style.key_separator = ": ";
  if (!bound.IsNoneOrAbsent(3)) {
    const std::vector<Value> separators = Collect(runtime, bound[3]);
    if (separators.size() != 2 || !separators[0].IsString() || !separators[1].IsString()) {
      Fail("tojson needs two strings as separators");
    }
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  return JsonWriter(runtime, style).Run(subject);
}

}  // namespace sluice::text::jinja
