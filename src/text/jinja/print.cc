#include <cstdio>

#include "text/jinja/failure.h"
#include "text/jinja/loop.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/scope.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

// Namespaces can hold each other, which their depth does not show.
constexpr int kReprDepthMax = 200;

void AppendEscape(char32_t c, TextBuilder* out) {
  char buffer[16];
  const unsigned value = static_cast<unsigned>(c);
  std::snprintf(buffer, sizeof buffer,
                value < 0x100     ? "\\x%02x"
                : value < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                value);
  out->Append(buffer);
}

void AppendStringRepr(std::string_view text, TextBuilder* out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out->Append(quote);
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    const char32_t c = DecodeUtf8(text, &place);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out->Append('\\');
      out->Append(static_cast<char>(c));
    } else if (c == '\n') {
      out->Append("\\n");
    } else if (c == '\r') {
      out->Append("\\r");
    } else if (c == '\t') {
      out->Append("\\t");
    } else if (IsPrintable(c)) {
      out->Append(text.substr(start, place - start));
    } else {
      AppendEscape(c, out);
    }
  }
  out->Append(quote);
}

class ReprPrinter {
 public:
  ReprPrinter(Runtime& runtime, TextBuilder* out) : runtime_(runtime), out_(out) {}

  void Print(const Value& value) {
    runtime_.Step();
    if (++depth_ > kReprDepthMax) Fail("a value is nested too deep to print");
    PrintKind(value);
    --depth_;
  }

 private:
  void PrintItems(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    out_->Append(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_->Append(", ");
      Print(items[i]);
    }
    out_->Append(close);
  }

  void PrintDict(const DictObject& dict) {
    out_->Append('{');
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!first) out_->Append(", ");
      first = false;
      Print(key);
      out_->Append(": ");
      Print(value);
    }
    out_->Append('}');
  }

  void PrintView(const ViewObject& view, std::string_view type) {
    out_->Append(type);
    std::vector<Value> items;
    for (const auto& [key, value] : view.dict.dict().entries) {
      if (view.what == ViewKind::kItems) {
        items.push_back(runtime_.Tuple({key, value}));
      } else {
        items.push_back(view.what == ViewKind::kKeys ? key : value);
      }
    }
    PrintItems(items, "([", "])");
  }

  void PrintRange(const RangeObject& range) {
    out_->Append(StrCat("range(", range.start, ", ", range.stop));
    if (range.step != 1) out_->Append(StrCat(", ", range.step));
    out_->Append(')');
  }

  void PrintNamespace(const NamespaceObject& space) {
    out_->Append("<Namespace {");
    bool first = true;
    for (const auto& [key, value] : space.attributes) {
      if (!first) out_->Append(", ");
      first = false;
      AppendStringRepr(key, out_);
      out_->Append(": ");
      Print(value);
    }
    out_->Append("}>");
  }

  void PrintKind(const Value& value) {
    switch (value.kind()) {
      case Kind::kUndefined:
        return out_->Append("Undefined");
      case Kind::kNone:
        return out_->Append("None");
      case Kind::kBool:
        return out_->Append(value.boolean() ? "True" : "False");
      case Kind::kInt:
        return out_->Append(FormatInteger(value.integer()));
      case Kind::kFloat:
        return out_->Append(FormatFloat(value.real()));
      case Kind::kString:
        if (value.markup()) out_->Append("Markup(");
        AppendStringRepr(value.text(), out_);
        if (value.markup()) out_->Append(')');
        return;
      case Kind::kList:
        return PrintItems(value.items(), "[", "]");
      case Kind::kTuple:
        return PrintItems(value.items(), "(", value.items().size() == 1 ? ",)" : ")");
      case Kind::kDict:
        return PrintDict(value.dict());
      case Kind::kView:
        return PrintView(value.As<ViewObject>(), TypeName(value));
      case Kind::kRange:
        return PrintRange(value.As<RangeObject>());
      case Kind::kNamespace:
        return PrintNamespace(value.As<NamespaceObject>());
      default:
        return PrintOpaque(value);
    }
  }

  // Objects whose text in Python has an address print without it.
  void PrintOpaque(const Value& value) {
    if (value.Is(Kind::kMacro)) {
      const MacroDefinition& definition = *value.As<MacroObject>().definition;
      out_->Append(definition.anonymous ? "<Macro anonymous>" : "<Macro ");
      if (definition.anonymous) return;
      AppendStringRepr(definition.name, out_);
      out_->Append('>');
      return;
    }
    if (value.Is(Kind::kLoop)) {
      LoopObject& loop = value.As<LoopObject>();
      out_->Append(StrCat("<LoopContext ", loop.index0 + 1, "/", loop.Length(runtime_), ">"));
      return;
    }
    out_->Append(StrCat("<", TypeName(value), " object>"));
  }

  Runtime& runtime_;
  TextBuilder* out_;
  int depth_ = 0;
};

}  // namespace

void AppendRepr(Runtime& runtime, const Value& value, TextBuilder* out) {
  ReprPrinter(runtime, out).Print(value);
}

std::string Repr(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  AppendRepr(runtime, value, &out);
  runtime.Work(out.text().size());
  return out.Take();
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

std::string EscapeHtml(Runtime& runtime, std::string_view text) {
  TextBuilder out(runtime);
  for (char c : text) {
    switch (c) {
      case '&':
        out.Append("&amp;");
        break;
      case '<':
        out.Append("&lt;");
        break;
      case '>':
        out.Append("&gt;");
        break;
      case '\'':
        out.Append("&#39;");
        break;
      case '"':
        out.Append("&#34;");
        break;
      default:
        out.Append(c);
    }
  }
  return out.Take();
}

Value Escape(Runtime& runtime, const Value& value) {
  if (value.markup()) return value;
  return runtime.String(EscapeHtml(runtime, ToString(runtime, value)), true);
}

}  // namespace sluice::text::jinja
