#include "text/jinja/failure.h"
#include "text/jinja/number_format.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_format.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& arguments)
      : runtime_(runtime), text_(format.text()), markup_(format.markup()), all_(arguments) {
    const bool is_tuple = arguments.Is(Kind::kTuple);
    if (is_tuple) {
      values_ = arguments.items();
    } else {
      values_ = {arguments};
    }
    // Values that can be subscripted need not all be used.
    is_mapping_ = arguments.Is(Kind::kDict) || arguments.Is(Kind::kList) ||
                  arguments.Is(Kind::kRange) || arguments.IsUndefined();
  }

  Value Run() {
    TextBuilder out(runtime_);
    runtime_.Work(text_.size() * 8);
    runtime_.Step(values_.size() / 16);
    while (place_ < text_.size()) {
      runtime_.Step();
      const size_t percent = std::min(text_.find('%', place_), text_.size());
      out.Append(std::string_view(text_).substr(place_, percent - place_));
      place_ = percent + 1;
      if (percent < text_.size()) out.Append(Directive());
    }
    if (used_ < values_.size() && !is_mapping_) {
      Fail("not all arguments converted during string formatting");
    }
    return out.Finish(markup_);
  }

 private:
  char Next() {
    if (place_ >= text_.size()) Fail("an incomplete format directive at the end of a string");
    return text_[place_++];
  }

  const Value& NextValue() {
    if (named_) return *named_;
    if (used_ >= values_.size()) Fail("not enough arguments for format string");
    return values_[used_++];
  }

  int64_t Number(char c) {
    if (c == '*') return Index(NextValue());
    --place_;
    int64_t value = 0;
    while (place_ < text_.size() && text_[place_] >= '0' && text_[place_] <= '9') {
      value = value * 10 + (text_[place_++] - '0');
      if (value > INT32_MAX) Fail("a width or precision in a format is too large");
    }
    return value;
  }

  void ReadName() {
    size_t depth = 1;
    const size_t start = place_;
    while (depth > 0) {
      const char c = Next();
      if (c == '(') ++depth;
      if (c == ')') --depth;
    }
    if (!is_mapping_ || !all_.Is(Kind::kDict)) Fail("a format string needs a mapping");
    const std::string name = text_.substr(start, place_ - 1 - start);
    runtime_.Work(name.size() * 8);
    const Value* value = all_.dict().Find(name);
    if (value == nullptr) Fail("a format string names '", name, "', which is not given");
    named_ = *value;
  }

  std::string Directive() {
    FormatSpec spec;
    named_.reset();
    char c = Next();
    if (c == '(') {
      ReadName();
      c = Next();
    }
    bool left = false;
    for (;; c = Next()) {
      if (c == '-') {
        left = true;
      } else if (c == '+') {
        spec.sign = '+';
      } else if (c == ' ') {
        if (spec.sign != '+') spec.sign = ' ';
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        spec.zero = true;
      } else {
        break;
      }
    }
    if (c == '*' || (c >= '1' && c <= '9')) {
      spec.width = Number(c);
      if (spec.width < 0) {
        left = true;
        spec.width = -spec.width;
      }
      c = Next();
    }
    if (c == '.') {
      c = Next();
      spec.precision = 0;
      if (c == '*' || (c >= '0' && c <= '9')) {
        spec.precision = std::max<int64_t>(Number(c), 0);
        c = Next();
      }
    }
    if (c == 'h' || c == 'l' || c == 'L') c = Next();
    if (c == '%') return "%";
    if (left) {
      spec.align = '<';
      spec.zero = false;
    }
    return Convert(spec, c);
  }

  std::string Convert(FormatSpec spec, char type) {
    const Value value = NextValue();
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        return Text(spec, value, type);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return Integer(spec, value, type);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        spec.type = type;
        if (value.IsUndefined()) Fail(value.undefined_message());
        if (!value.IsNumber()) Fail("must be real number, not ", TypeName(value));
        return FormatFloatSpec(runtime_, spec, value.AsDouble());
      case 'c': {
        if (value.IsString() && value.chars() == 1) return Padded(spec, value.text());
        if (!value.IsIntegral()) Fail("%c requires an int or a character");
        spec.type = 'c';
        return FormatValue(runtime_, value, "c");
      }
      default:
        Fail("unsupported format character '", type, "'");
    }
  }

  std::string Padded(FormatSpec spec, std::string_view text) {
    spec.zero = false;
    return Pad(runtime_, spec, "", text, '>');
  }

  std::string Text(const FormatSpec& spec, const Value& value, char type) {
    if (type == 'a') Fail("the conversion %a is not supported");
    std::string text = type == 's' ? ToString(runtime_, value) : Repr(runtime_, value);
    if (markup_ && !value.markup()) text = EscapeHtml(runtime_, text);
    if (spec.precision >= 0) {
      text.resize(Utf8Offset(text, static_cast<size_t>(spec.precision)));
    }
    return Padded(spec, text);
  }

  std::string Integer(FormatSpec spec, const Value& value, char type) {
    if (value.IsUndefined()) Fail(value.undefined_message());
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (!value.IsIntegral() && !(decimal && value.Is(Kind::kFloat))) {
      Fail("%", type, " format: a number is required, not ", TypeName(value));
    }
    const Int number = value.IsIntegral() ? value.integer() : TruncateFloat(value.real());
    spec.type = decimal ? 'd' : type;
    if (spec.precision < 0) return FormatIntegerSpec(runtime_, spec, number);
    // A precision is the least number of digits.
    FormatSpec inner = spec;
    inner.align = '\0';
    inner.zero = true;
    inner.sign = '-';
    inner.alternate = false;
    inner.width = spec.precision;
    const std::string digits = FormatIntegerSpec(runtime_, inner, number < 0 ? -number : number);
    std::string head = number < 0 ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    if (spec.alternate && type != 'd') head += type == 'o' ? "0o" : type == 'x' ? "0x" : "0X";
    return Pad(runtime_, spec, head, digits, '>');
  }

  Runtime& runtime_;
  const std::string& text_;
  const bool markup_;
  const Value& all_;
  std::vector<Value> values_;
  bool is_mapping_ = false;
  size_t used_ = 0;
  std::optional<Value> named_;
  size_t place_ = 0;
};

}  // namespace

Value PercentFormat(Runtime& runtime, const Value& format, const Value& arguments) {
  return PercentFormatter(runtime, format, arguments).Run();
}

}  // namespace sluice::text::jinja
