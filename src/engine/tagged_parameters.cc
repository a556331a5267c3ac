#include "engine/tagged_parameters.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"
#include "text/json_schema.h"
#include "text/structural_tag.h"
#include "text/whole_regex.h"

namespace sluice::engine {
namespace {

using Kind = text::ToolSchemas::Kind;

constexpr const char* kDefinitions = "#/$defs/";
// Of JSON, that arguments which refer to parts of a tool's schema have of these, all together: each
// has a schema of its own.
constexpr size_t kCopiedValuesMax = 1 << 18;

size_t ValuesOf(const OrderedJson& part) {
  size_t count = 1;
  if (!part.is_structured()) return count;
  for (const OrderedJson& inner : part) count += ValuesOf(inner);
  return count;
}

OrderedJson Or(OrderedJson elements) {
  if (elements.empty()) return nullptr;
  return elements.size() == 1 ? OrderedJson(elements[0])
                              : OrderedJson{{"type", "or"}, {"elements", std::move(elements)}};
}

OrderedJson Literal(std::string text) {
  return {{"type", "const_string"}, {"value", std::move(text)}};
}

// A number of a rewritten schema that stands there as a text; empty: the value is no such number.
std::string_view WrittenNumber(const OrderedJson& value) {
  if (!value.is_string()) return "";
  const std::string_view text = value.get_ref<const std::string&>();
  return text.starts_with(text::kNumberText) ? text.substr(text::kNumberText.size()) : "";
}

Status RefuseParameter(std::string_view name, std::string_view why) {
  return InvalidArgument(StrCat("the property ", Quote(name.substr(0, 128)), " ", why), "tools");
}

// Whether a schema, or one within it, lists a text with `end` in it. JSON escapes none of a tag.
bool Lists(const OrderedJson& schema, std::string_view end) {
  if (!schema.is_structured()) return false;
  if (schema.is_object() && schema.contains("enum") &&
      DumpJson(schema["enum"]).find(end) != std::string::npos) {
    return true;
  }
  return std::any_of(schema.begin(), schema.end(),
                     [&](const OrderedJson& part) { return Lists(part, end); });
}

class TaggedBuilder {
 public:
  TaggedBuilder(const OrderedJson& schema, const text::ToolSchemas& kinds, std::string_view tool,
                const text::ParameterShape& shape)
      : schema_(schema), kinds_(kinds), tool_(tool), shape_(shape) {
    const size_t tag = shape.end.find('<');
    end_ = shape.end.substr(tag, shape.end.find('>') + 1 - tag);
    const OrderedJson& parts = schema["$defs"];
    for (auto part = parts.begin(); part != parts.end(); ++part)
      definitions_[part.key()] = {&part.value(), ValuesOf(part.value())};
  }

  Result<std::vector<text::TaggedParameter>> Run();

 private:
  const OrderedJson& Resolved(const OrderedJson& part) const {
    const auto reference = part.find("$ref");
    if (reference == part.end()) return part;
    return Resolved(*Definition(reference->get_ref<const std::string&>())->second.part);
  }
  bool IsAny(const OrderedJson& part) const { return &Resolved(part) == &schema_["$defs"]["any"]; }
  // Alternatives that are strings, values and others.
  void Sort(const OrderedJson& part, std::vector<const OrderedJson*>* strings,
            std::vector<const OrderedJson*>* values, OrderedJson* others) const;
  Result<text::TaggedParameter> Parameter(const std::string& name, const OrderedJson& part);
  // Of a string, as it stands between the tags.
  Result<OrderedJson> Text(const std::string& name, const OrderedJson& string) const;
  // Of an argument, with the parts that it refers to. Once copied_ is above its limit, not of use.
  OrderedJson Json(const OrderedJson& part) {
    OrderedJson schema = part;
    if (schema_.contains(text::kExtendedMember)) schema[text::kExtendedMember] = true;
    for (const std::string_view name : NamesIn(part)) {
      const DefinedPart& defined = definitions_.find(name)->second;
      if ((copied_ += defined.values) > kCopiedValuesMax) break;
      schema["$defs"][std::string(name)] = *defined.part;
    }
    return {{"type", "json_schema"},
            {"json_schema", std::move(schema)},
            {text::kRewrittenMember, true}};
  }
  // Of the definitions that a part refers to, and these in turn.
  std::set<std::string_view> NamesIn(const OrderedJson& part) const;
  // The values that are listed, as texts and as JSON.
  Status AddListed(const std::string& name, const std::vector<const OrderedJson*>& values,
                   OrderedJson* texts, OrderedJson* others) const;
  Status RefuseListed(std::string_view name) const {
    return RefuseParameter(name, StrCat("has a const or enum that lists a text with ", end_,
                                        " in it, which ends a value as the model writes it"));
  }
  // Whether the parser takes what is written as `text` for that string.
  bool IsText(const std::string& name, const std::string& text) const;
  bool told_apart() const { return !shape_.before_json.empty(); }

  struct DefinedPart {
    const OrderedJson* part = nullptr;
    size_t values = 0;
  };
  using Definitions = std::map<std::string, DefinedPart, std::less<>>;
  Definitions::const_iterator Definition(std::string_view reference) const {
    const std::string_view scheme = kDefinitions;
    return reference.starts_with(scheme) ? definitions_.find(reference.substr(scheme.size()))
                                         : definitions_.end();
  }

  const OrderedJson& schema_;
  const text::ToolSchemas& kinds_;
  const std::string_view tool_;
  const text::ParameterShape& shape_;
  std::string_view end_;  // the tag behind a value
  Definitions definitions_;
  size_t copied_ = 0;  // values of them, into arguments' schemas
};

std::set<std::string_view> TaggedBuilder::NamesIn(const OrderedJson& part) const {
  std::set<std::string_view> names;
  std::vector<const OrderedJson*> unread = {&part};
  while (!unread.empty()) {
    const OrderedJson& read = *unread.back();
    unread.pop_back();
    const auto reference = read.is_object() ? read.find("$ref") : read.end();
    if (reference != read.end() && reference->is_string()) {
      const auto defined = Definition(reference->get_ref<const std::string&>());
      if (defined != definitions_.end() && names.insert(defined->first).second)
        unread.push_back(defined->second.part);
    }
    for (const OrderedJson& inner : read) {
      if (inner.is_structured()) unread.push_back(&inner);
    }
  }
  return names;
}

void TaggedBuilder::Sort(const OrderedJson& part, std::vector<const OrderedJson*>* strings,
                         std::vector<const OrderedJson*>* values, OrderedJson* others) const {
  const OrderedJson& resolved = Resolved(part);
  if (resolved.contains("anyOf")) {
    for (const OrderedJson& inner : resolved["anyOf"]) Sort(inner, strings, values, others);
  } else if (resolved.contains("enum")) {
    for (const OrderedJson& value : resolved["enum"]) values->push_back(&value);
  } else if (resolved.value("type", OrderedJson()) == "string") {
    strings->push_back(&resolved);
  } else {
    others->push_back(resolved);
  }
}

Result<OrderedJson> TaggedBuilder::Text(const std::string& name, const OrderedJson& string) const {
  const auto pattern = string.find("pattern");
  if (pattern == string.end()) return OrderedJson(true);
  const auto regex = text::RegexWithout(pattern->get_ref<const std::string&>(), '<');
  if (!regex.ok())
    return RefuseParameter(name, StrCat("cannot be written: ", regex.status().message()));
  return OrderedJson{{"type", "regex"}, {"pattern", *regex}};
}

bool TaggedBuilder::IsText(const std::string& name, const std::string& text) const {
  if (told_apart() || kinds_.KindOf(tool_, name) == Kind::kText) return true;
  const auto parsed = text::ReadWrittenValue(text::JsonSpelling(text));
  return !parsed || parsed->is_string() || kinds_.IsText(tool_, name, text, *parsed);
}

Status TaggedBuilder::AddListed(const std::string& name,
                                const std::vector<const OrderedJson*>& values, OrderedJson* texts,
                                OrderedJson* others) const {
  OrderedJson listed = OrderedJson::array();
  for (const OrderedJson* value : values) {
    const std::string_view number = WrittenNumber(*value);
    const bool is_string = value->is_string() && number.empty();
    const std::string text = is_string        ? value->get<std::string>()
                             : number.empty() ? DumpJson(*value)
                                              : std::string(number);
    if (is_string && text.find(end_) != std::string::npos) return RefuseListed(name);
    // What the parser would take for the other is left out.
    if (is_string != (IsText(name, text) && (is_string || !told_apart()))) continue;
    // Where a value stands on lines of its own, the parser takes one line's end off.
    if (is_string && (text.starts_with('\n') || text.ends_with('\n'))) continue;
    is_string ? texts->push_back(Literal(text)) : listed.push_back(*value);
  }
  if (!listed.empty()) others->push_back({{"enum", std::move(listed)}});
  return OkStatus();
}

Result<text::TaggedParameter> TaggedBuilder::Parameter(const std::string& name,
                                                       const OrderedJson& part) {
  text::TaggedParameter parameter;
  parameter.name = name;
  if (IsAny(part)) {
    parameter.text = true;
    if (told_apart()) parameter.json = Json({{"$ref", "#/$defs/any"}});
    return parameter;
  }
  std::vector<const OrderedJson*> strings, values;
  OrderedJson others = OrderedJson::array(), texts = OrderedJson::array();
  Sort(part, &strings, &values, &others);
  const auto is_null = [](const OrderedJson* value) { return value->is_null(); };
  const bool or_null = std::any_of(values.begin(), values.end(), is_null) ||
                       std::any_of(others.begin(), others.end(), [](const OrderedJson& other) {
                         return other.value("type", OrderedJson()) == "null";
                       });
  // A string of which the parser cannot be certain is left out, if there is anything else.
  const bool certain = told_apart() || kinds_.KindOf(tool_, name) == Kind::kText ||
                       (or_null && kinds_.IsTextOrNull(tool_, name));
  bool any_text = false;
  for (const OrderedJson* string : strings) {
    if (!certain) continue;
    SLUICE_ASSIGN_OR_RETURN(OrderedJson text, Text(name, *string));
    any_text = any_text || text == true;
    texts.push_back(std::move(text));
  }
  SLUICE_RETURN_IF_ERROR(AddListed(name, values, &texts, &others));
  parameter.text = any_text ? OrderedJson(true) : Or(std::move(texts));
  if (!others.empty()) {
    parameter.json = Json(others.size() == 1 ? OrderedJson(others[0])
                                             : OrderedJson{{"anyOf", std::move(others)}});
  }
  if (copied_ > kCopiedValuesMax) {
    return RefuseParameter(name,
                           StrCat("refers, with the properties before it, to parts of more than ",
                                  kCopiedValuesMax, " values in all"));
  }
  if (Lists(parameter.json, end_)) return RefuseListed(name);
  if (parameter.text.is_null() && parameter.json.is_null()) {
    return RefuseParameter(
        name,
        "has strings that cannot be told from other JSON between tags; give it the "
        "type string");
  }
  return parameter;
}

Result<std::vector<text::TaggedParameter>> TaggedBuilder::Run() {
  const OrderedJson& root = Resolved(schema_);
  if (&root == &schema_["$defs"]["any"]) return AnyTaggedParameters(shape_);
  if (root.value("type", OrderedJson()) != "object") {
    return InvalidArgument("they are no one object, which arguments between tags have to be",
                           "tools");
  }
  std::vector<text::TaggedParameter> parameters;
  const OrderedJson properties = root.value("properties", OrderedJson::object());
  const OrderedJson required = root.value("required", OrderedJson::array());
  for (const auto& [name, part] : properties.items()) {
    const bool writable = !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
      return static_cast<unsigned char>(c) <= 0x20 ||
             std::string_view("<>\"").find(c) != std::string_view::npos;
    });
    if (!writable) return RefuseParameter(name, "has a name that cannot stand in a tag");
    SLUICE_ASSIGN_OR_RETURN(text::TaggedParameter parameter, Parameter(name, part));
    parameter.required = std::find(required.begin(), required.end(), name) != required.end();
    parameters.push_back(std::move(parameter));
  }
  const OrderedJson others = root.value("additionalProperties", OrderedJson(false));
  for (const char* keyword :
       {"propertyNames", "patternProperties", "minProperties", "maxProperties"}) {
    if (root.contains(keyword) &&
        (keyword != std::string_view("propertyNames") || parameters.empty())) {
      return InvalidArgument(
          StrCat("the keyword \"", keyword, "\" is not supported of arguments between tags"),
          "tools");
    }
  }
  // Others beside names are left out, as they are of JSON objects that do not say.
  if (!parameters.empty() || others == false) return parameters;
  SLUICE_ASSIGN_OR_RETURN(text::TaggedParameter other, Parameter("", others));
  parameters.push_back(std::move(other));
  return parameters;
}

}  // namespace

Result<std::vector<text::TaggedParameter>> TaggedParameters(const OrderedJson& schema,
                                                            const text::ToolSchemas& kinds,
                                                            std::string_view tool,
                                                            const text::ParameterShape& shape) {
  return TaggedBuilder(schema, kinds, tool, shape).Run();
}

std::vector<text::TaggedParameter> AnyTaggedParameters(const text::ParameterShape& shape) {
  text::TaggedParameter any;
  any.text = true;
  if (!shape.before_json.empty()) any.json = {{"type", "json_schema"}, {"json_schema", true}};
  return {any};
}

}  // namespace sluice::engine
