#include "text/jinja/string_format.h"

#include "text/jinja/failure.h"
#include "text/jinja/number_format.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

// Reads digits at `*place`; nothing if there are none.
std::optional<int64_t> ReadNumber(std::string_view text, size_t* place) {
  if (*place >= text.size() || !IsAsciiDigit(text[*place])) return std::nullopt;
  int64_t value = 0;
  while (*place < text.size() && IsAsciiDigit(text[*place])) {
    value = value * 10 + (text[(*place)++] - '0');
    if (value > INT32_MAX) Fail("a width or precision in a format is too large");
  }
  return value;
}

bool IsAlign(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

FormatSpec ParseSpec(std::string_view text) {
  FormatSpec spec;
  size_t place = 0;
  const auto at = [&](char c) { return place < text.size() && text[place] == c; };
  if (!text.empty()) {
    const size_t fill = Utf8LengthAt(text, 0);
    if (fill < text.size() && IsAlign(text[fill])) {
      spec.fill = std::string(text.substr(0, fill));
      spec.align = text[fill];
      place = fill + 1;
    } else if (IsAlign(text[0])) {
      spec.align = text[0];
      place = 1;
    }
  }
  if (at('+') || at('-') || at(' ')) spec.sign = text[place++];
  if (at('z')) Fail("the format option 'z' is not supported");
  if (at('#')) spec.alternate = true, ++place;
  if (at('0')) {
    spec.zero = true;
    ++place;
    if (spec.align != '\0' && spec.fill == " ") spec.fill = "0";
  }
  spec.width = ReadNumber(text, &place).value_or(0);
  if (at(',') || at('_')) spec.grouping = text[place++];
  if (at('.')) {
    ++place;
    const std::optional<int64_t> precision = ReadNumber(text, &place);
    if (!precision) Fail("a format specification lacks the precision after '.'");
    spec.precision = *precision;
  }
  if (place < text.size()) spec.type = text[place++];
  if (place != text.size()) Fail("the format specification '", text, "' is invalid");
  return spec;
}

[[noreturn]] void UnknownType(const FormatSpec& spec, const Value& value) {
  Fail("unknown format code '", spec.type, "' for object of type '", TypeName(value), "'");
}

std::string FormatText(Runtime& runtime, FormatSpec spec, const Value& value) {
  if (spec.type != '\0' && spec.type != 's') UnknownType(spec, value);
  if (spec.align == '=' || spec.sign != '-' || spec.alternate || spec.grouping != '\0') {
    Fail("a format option for numbers is not allowed for a str");
  }
  std::string_view text = value.text();
  if (spec.precision >= 0) {
    text = text.substr(0, Utf8Offset(text, static_cast<size_t>(spec.precision)));
  }
  if (spec.zero && spec.align == '\0') {
    spec.zero = false;
    spec.fill = "0";
  }
  return Pad(runtime, spec, "", text, '<');
}

std::string FormatInt(Runtime& runtime, FormatSpec spec, const Value& value) {
  switch (spec.type) {
    case '\0':
    case 'n':
    case 'd':
    case 'x':
    case 'X':
    case 'o':
    case 'b':
      if (spec.precision >= 0) Fail("a precision is not allowed for an integer");
      if (spec.grouping == ',' && spec.type != 'd' && spec.type != '\0') {
        Fail("cannot specify ',' with '", spec.type, "'");
      }
      return FormatIntegerSpec(runtime, spec, value.integer());
    case 'c': {
      const Int code = value.integer();
      if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        Fail("%c needs a character's number");
      }
      std::string text;
      AppendUtf8(static_cast<char32_t>(code), &text);
      return Pad(runtime, spec, "", text, '<');
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case '%':
      return FormatFloatSpec(runtime, spec, value.AsDouble());
    default:
      UnknownType(spec, value);
  }
}

std::string FormatReal(Runtime& runtime, const FormatSpec& spec, const Value& value) {
  if (spec.type != '\0' && std::string_view("eEfFgGn%").find(spec.type) == std::string::npos) {
    UnknownType(spec, value);
  }
  return FormatFloatSpec(runtime, spec, value.real());
}

// str.format: fields are {name.attribute[item]!conversion:spec}, where the spec may hold fields.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Value& format, const std::vector<Value>& positional,
                 const Value* mapping, const Arguments* arguments)
      : runtime_(runtime),
        markup_(format.markup()),
        positional_(positional),
        mapping_(mapping),
        arguments_(arguments) {}

  std::string Run(std::string_view text, int depth) {
    if (depth > 2) Fail("a format string is nested too deep");
    runtime_.Work(text.size() * 8);
    TextBuilder out(runtime_);
    for (size_t place = 0; place < text.size();) {
      runtime_.Step();
      const size_t brace = std::min(text.find_first_of("{}", place), text.size());
      out.Append(text.substr(place, brace - place));
      place = brace;
      if (place >= text.size()) break;
      if (place + 1 < text.size() && text[place + 1] == text[place]) {
        out.Append(text[place]);
        place += 2;
      } else if (text[place] == '}') {
        Fail("a single '}' in a format string");
      } else {
        const size_t end = FieldEnd(text, place);
        out.Append(Field(text.substr(place + 1, end - place - 1), depth));
        place = end + 1;
      }
    }
    return out.Take();
  }

 private:
  static size_t FieldEnd(std::string_view text, size_t open) {
    int depth = 0;
    bool in_item = false;
    for (size_t i = open; i < text.size(); ++i) {
      if (text[i] == '[' && depth == 1) in_item = true;
      if (text[i] == ']') in_item = false;
      if (in_item) continue;
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return i;
    }
    Fail("expected '}' before the end of a format string");
  }

  std::string Field(std::string_view field, int depth) {
    size_t end = 0;
    bool in_item = false;
    while (end < field.size()) {
      if (field[end] == '[') in_item = true;
      if (field[end] == ']') in_item = false;
      if (!in_item && (field[end] == '!' || field[end] == ':')) break;
      ++end;
    }
    Value value = Lookup(field.substr(0, end));
    if (end < field.size() && field[end] == '!') {
      if (end + 1 >= field.size()) Fail("a format field lacks its conversion");
      value = Convert(value, field[end + 1]);
      end += 2;
      if (end < field.size() && field[end] != ':') Fail("expected ':' after a conversion");
    }
    std::string spec;
    if (end < field.size()) spec = Run(field.substr(end + 1), depth + 1);
    if (!markup_) return FormatValue(runtime_, value, spec);
    if (value.markup()) {
      if (!spec.empty()) Fail("a safe string takes no format specification");
      return value.text();
    }
    return EscapeHtml(runtime_, FormatValue(runtime_, value, spec));
  }

  Value Convert(const Value& value, char conversion) {
    if (conversion == 's') return runtime_.String(ToString(runtime_, value));
    if (conversion == 'r') return runtime_.String(Repr(runtime_, value));
    Fail("the conversion '!", conversion, "' of a format field is not supported");
  }

  const Value* Given(std::string_view name) {
    runtime_.Step(arguments_->named.size() / 16);
    return arguments_->Named(name);
  }

  Value Named(std::string_view name) {
    if (mapping_ != nullptr) {
      std::optional<Value> value =
          FindItem(runtime_, *mapping_, runtime_.String(std::string(name)));
      if (value) return *value;
    } else if (const Value* value = Given(name)) {
      return *value;
    }
    Fail("a format string names '", name, "', which is not given");
  }

  Value First(std::string_view name) {
    size_t end = 0;
    std::optional<int64_t> index = ReadNumber(name, &end);
    if (name.empty()) {
      if (numbered_) Fail("a format string mixes numbered and automatic fields");
      index = automatic_++;
    } else if (index && end == name.size()) {
      if (automatic_ > 0) Fail("a format string mixes numbered and automatic fields");
      numbered_ = true;
    } else {
      return Named(name);
    }
    if (static_cast<size_t>(*index) >= positional_.size()) {
      Fail("a format string uses argument ", *index, ", but ", positional_.size(), " are given");
    }
    return positional_[static_cast<size_t>(*index)];
  }

  Value Lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = First(name.substr(0, first_end));
    for (size_t place = first_end; place < name.size();) {
      if (name[place] == '.') {
        const size_t end = std::min(name.find_first_of(".[", place + 1), name.size());
        if (end == place + 1) Fail("an empty attribute in a format string");
        value = GetAttribute(runtime_, value, name.substr(place + 1, end - place - 1));
        place = end;
        continue;
      }
      const size_t end = name.find(']', place);
      if (name[place] != '[' || end == std::string_view::npos || end == place + 1) {
        Fail("a format string has a malformed field '", name, "'");
      }
      const std::string_view key = name.substr(place + 1, end - place - 1);
      size_t digits = 0;
      const std::optional<int64_t> index = ReadNumber(key, &digits);
      const bool is_number = index && digits == key.size();
      value = GetItem(runtime_, value,
                      is_number ? Value::Integer(*index) : runtime_.String(std::string(key)));
      place = end + 1;
    }
    return value;
  }

  Runtime& runtime_;
  const bool markup_;
  const std::vector<Value>& positional_;
  const Value* mapping_;        // format_map's
  const Arguments* arguments_;  // format's
  bool numbered_ = false;
  int64_t automatic_ = 0;
};

}  // namespace

std::string FormatValue(Runtime& runtime, const Value& value, std::string_view text) {
  if (text.empty()) return ToString(runtime, value);
  switch (value.kind()) {
    case Kind::kString:
      return FormatText(runtime, ParseSpec(text), value);
    case Kind::kBool:
    case Kind::kInt:
      return FormatInt(runtime, ParseSpec(text), value);
    case Kind::kFloat:
      return FormatReal(runtime, ParseSpec(text), value);
    default:
      Fail("unsupported format string passed to ", TypeName(value));
  }
}

Value BraceFormat(Runtime& runtime, const Value& format, const Arguments& arguments) {
  BraceFormatter formatter(runtime, format, arguments.positional, nullptr, &arguments);
  return runtime.String(formatter.Run(format.text(), 1), format.markup());
}

Value BraceFormatMap(Runtime& runtime, const Value& format, const Value& mapping) {
  const std::vector<Value> none;
  BraceFormatter formatter(runtime, format, none, &mapping, nullptr);
  return runtime.String(formatter.Run(format.text(), 1), format.markup());
}

}  // namespace sluice::text::jinja
