#include "text/output/call_grammar.h"

#include <algorithm>
#include <utility>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::text {
namespace {

constexpr size_t kNameBytesMax = 128;
// Of arguments that no schema names.
constexpr const char* kOtherNames = "[A-Za-z_][A-Za-z0-9_]{0,63}";

OrderedJson Sequence(OrderedJson elements) {
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}

OrderedJson Or(OrderedJson elements) {
  return elements.size() == 1 ? OrderedJson(elements[0])
                              : OrderedJson{{"type", "or"}, {"elements", std::move(elements)}};
}

// The mark that `text` begins with, the longest of several; empty: none.
std::string_view MarkAt(std::string_view text, std::span<const std::string_view> marks) {
  std::string_view found;
  for (const std::string_view mark : marks) {
    if (text.starts_with(mark) && mark.size() > found.size()) found = mark;
  }
  return found;
}

class CallGrammarBuilder {
 public:
  CallGrammarBuilder(const CallShape& shape, std::span<const std::string_view> marks,
                     const SpecialMark& special)
      : shape_(shape), marks_(marks), special_(special) {}

  OrderedJson Calls(std::span<const CallableTool> tools, bool one_call) const {
    OrderedJson elements = OrderedJson::array();
    AddLiteral(shape_.section_begin, &elements);
    const OrderedJson call = Call(tools);
    elements.push_back(call);
    if (!one_call && !shape_.single) {
      OrderedJson next = OrderedJson::array();
      AddLiteral(shape_.separator, &next);
      next.push_back(call);
      elements.push_back({{"type", "star"}, {"content", Sequence(std::move(next))}});
    }
    AddLiteral(shape_.section_end, &elements);
    return Sequence(std::move(elements));
  }

  // Calls, or else text unless they are `required`, behind messages of their own.
  OrderedJson Messages(OrderedJson calls, bool required) const {
    OrderedJson first = Message(shape_.think_begin);
    if (required) {
      first = {{"type", "optional"}, {"content", std::move(first)}};
      return Sequence(OrderedJson::array({std::move(first), std::move(calls)}));
    }
    first = Or(OrderedJson::array({std::move(first), Message(shape_.text_begin)}));
    OrderedJson last = OrderedJson::array();
    AddLiteral(shape_.last_text_begin, &last);
    last.push_back(TextWithoutMarks());
    last = Or(OrderedJson::array({std::move(calls), Sequence(std::move(last))}));
    return Sequence(OrderedJson::array(
        {OrderedJson{{"type", "star"}, {"content", std::move(first)}}, std::move(last)}));
  }

  // Text that no call begins in.
  OrderedJson Prose() const {
    const std::string_view first =
        shape_.section_begin.empty() ? shape_.call_begin : shape_.section_begin;
    // A bracket alone is no call further behind.
    if (shape_.bare && first == "[") {
      const OrderedJson begin = {{"type", "regex"}, {"pattern", "[^\\[ \\t\\r\\n]"}};
      return Sequence(OrderedJson::array({begin, TextWithoutMarks()}));
    }
    const std::string_view mark = MarkAt(first, marks_);
    return {{"type", "any_text"},
            {"excludes", OrderedJson::array({std::string(mark.empty() ? first : mark)})}};
  }

 private:
  OrderedJson TextWithoutMarks() const {
    OrderedJson marks = OrderedJson::array();
    for (const std::string_view mark : marks_) marks.push_back(std::string(mark));
    return {{"type", "any_text"}, {"excludes", std::move(marks)}};
  }

  OrderedJson Message(std::string_view begin) const {
    OrderedJson elements = OrderedJson::array();
    AddLiteral(begin, &elements);
    elements.push_back(TextWithoutMarks());
    AddLiteral(shape_.message_end, &elements);
    return Sequence(std::move(elements));
  }

  OrderedJson Call(std::span<const CallableTool> tools) const {
    OrderedJson named = OrderedJson::array();
    for (const CallableTool& tool : tools) {
      OrderedJson elements = OrderedJson::array();
      elements.push_back({{"type", "const_string"}, {"value", tool.name}});
      if (!shape_.behind_name.empty()) {
        elements.push_back({{"type", "regex"}, {"pattern", std::string(shape_.behind_name)}});
      }
      AddLiteral(shape_.arguments, &elements);
      if (shape_.form != nullptr) {
        elements.push_back(tool.written);
      } else if (shape_.parameters == nullptr) {
        elements.push_back({{"type", "json_schema"}, {"json_schema", tool.schema}});
      }
      for (const TaggedParameter& parameter : tool.parameters) {
        elements.push_back(Parameter(parameter));
      }
      named.push_back(Sequence(std::move(elements)));
    }
    OrderedJson elements = OrderedJson::array();
    AddLiteral(shape_.call_begin, &elements);
    elements.push_back(Or(std::move(named)));
    AddLiteral(shape_.call_end, &elements);
    return Sequence(std::move(elements));
  }

  OrderedJson Parameter(const TaggedParameter& parameter) const {
    const ParameterShape& shape = *shape_.parameters;
    const bool told_apart = !shape.before_json.empty();
    OrderedJson values = OrderedJson::array();
    for (const bool is_text : {true, false}) {
      const OrderedJson& format = is_text ? parameter.text : parameter.json;
      if (format.is_null()) continue;
      OrderedJson elements = OrderedJson::array();
      AddLiteral(is_text || !told_apart ? shape.before_text : shape.before_json, &elements);
      // Behind a text the parser looks for the tag alone, without the line that it may stand on.
      const size_t tag = shape.end.find('<');
      const std::string end(shape.end.substr(tag, shape.end.find('>') + 1 - tag));
      elements.push_back(format == true ? OrderedJson{{"type", "any_text"},
                                                      {"excludes", OrderedJson::array({end})}}
                                        : format);
      values.push_back(Sequence(std::move(elements)));
    }
    OrderedJson elements = OrderedJson::array();
    AddLiteral(shape.begin, &elements);
    if (parameter.name.empty()) {
      elements.push_back({{"type", "regex"}, {"pattern", kOtherNames}});
    } else {
      elements.push_back({{"type", "const_string"}, {"value", parameter.name}});
    }
    elements.push_back(Or(std::move(values)));
    AddLiteral(shape.end, &elements);
    if (parameter.required) return Sequence(std::move(elements));
    return {{"type", parameter.name.empty() ? "star" : "optional"},
            {"content", Sequence(std::move(elements))}};
  }

  // A text, in which the marks that are special tokens are these.
  void AddLiteral(std::string_view text, OrderedJson* elements) const {
    std::string plain;
    const auto flush = [&] {
      if (!plain.empty()) elements->push_back({{"type", "const_string"}, {"value", plain}});
      plain.clear();
    };
    while (!text.empty()) {
      const std::string_view mark = MarkAt(text, marks_);
      const int32_t id = mark.empty() ? -1 : special_(mark);
      if (id < 0) {
        plain += text[0];
        text.remove_prefix(1);
        continue;
      }
      flush();
      elements->push_back({{"type", "token"}, {"token", id}});
      text.remove_prefix(mark.size());
    }
    flush();
  }

  const CallShape& shape_;
  const std::span<const std::string_view> marks_;
  const SpecialMark& special_;
};

}  // namespace

Status CheckToolName(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  };
  if (!name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), fits))
    return OkStatus();
  return InvalidArgument(StrCat("the tool ", Quote(name.substr(0, kNameBytesMax)),
                                " has a name that answers cannot be held to; such a name has 1 to ",
                                kNameBytesMax, " letters, digits, and _ - . : /"),
                         "tools");
}

Grammar CallGrammar(const CallShape& shape, std::span<const std::string_view> marks,
                    std::span<const CallableTool> tools, bool required, bool one_call,
                    const SpecialMark& special) {
  const CallGrammarBuilder builder(shape, marks, special);
  OrderedJson format = builder.Calls(tools, one_call);
  if (!shape.message_end.empty()) {
    format = builder.Messages(std::move(format), required);
  } else if (!required && shape.bare) {
    format = Or(OrderedJson::array({std::move(format), builder.Prose()}));
  } else if (!required) {
    OrderedJson calls = {{"type", "optional"}, {"content", std::move(format)}};
    format = Sequence(OrderedJson::array({builder.Prose(), std::move(calls)}));
  }
  const OrderedJson tag = {{"type", "structural_tag"}, {"format", std::move(format)}};
  return {Grammar::Kind::kStructuralTag, DumpJson(tag)};
}

}  // namespace sluice::text
