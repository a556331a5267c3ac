#include "text/schema_negation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "text/schema_forms.h"
#include "text/whole_regex.h"

namespace sluice::text {
namespace {

using Negation = std::optional<OrderedJson>;

struct TypeName {
  const char* name;
  uint8_t types;
};
constexpr TypeName kTypeNames[] = {{"null", kNullType},     {"boolean", kBooleanType},
                                   {"number", kNumberType}, {"string", kStringType},
                                   {"array", kArrayType},   {"object", kObjectType}};

// A bound, and that of what breaks it.
struct Bound {
  const char* keyword;
  const char* type;
  const char* broken;
  int step;
};
constexpr Bound kNegatedBounds[] = {{"minimum", "number", "exclusiveMaximum", 0},
                                    {"maximum", "number", "exclusiveMinimum", 0},
                                    {"exclusiveMinimum", "number", "maximum", 0},
                                    {"exclusiveMaximum", "number", "minimum", 0},
                                    {"minLength", "string", "maxLength", -1},
                                    {"maxLength", "string", "minLength", 1},
                                    {"minItems", "array", "maxItems", -1},
                                    {"maxItems", "array", "minItems", 1},
                                    {"minProperties", "object", "maxProperties", -1},
                                    {"maxProperties", "object", "minProperties", 1}};

constexpr double kNegatedCountMax = 9007199254740991.0;  // 2^53 - 1

// What asserts something and has no negation here.
constexpr std::array kNotNegated = {"$ref",
                                    "$dynamicRef",
                                    "$recursiveRef",
                                    "oneOf",
                                    "if",
                                    "dependentRequired",
                                    "dependentSchemas",
                                    "dependencies",
                                    "multipleOf",
                                    "pattern",
                                    "format",
                                    "items",
                                    "prefixItems",
                                    "additionalItems",
                                    "unevaluatedItems",
                                    "contains",
                                    "uniqueItems",
                                    "patternProperties",
                                    "propertyNames",
                                    "additionalProperties",
                                    "unevaluatedProperties"};

OrderedJson OfTypes(uint8_t types) {
  OrderedJson names = OrderedJson::array();
  for (const TypeName& type : kTypeNames) {
    if ((type.types & types) != 0) names.push_back(type.name);
  }
  return {{"type", std::move(names)}};
}

Negation NegatedType(const OrderedJson& type) {
  uint8_t types = 0;
  const OrderedJson list = type.is_array() ? type : OrderedJson::array({type});
  for (const OrderedJson& name : list) {
    uint8_t named = 0;
    for (const TypeName& known : kTypeNames) named |= name == known.name ? known.types : 0;
    if (named == 0) return std::nullopt;  // numbers that are no integers have no name
    types |= named;
  }
  if (types == 0) return std::nullopt;  // a list of none
  return types == kAllTypes ? OrderedJson(false)
                            : OfTypes(static_cast<uint8_t>(~types & kAllTypes));
}

// Other values than those of const or enum.
Negation NegatedValues(const OrderedJson& values, OrderedJson* parts) {
  uint8_t types = 0;
  std::vector<std::string> texts;
  OrderedJson other_numbers = OrderedJson::array(), other_booleans = OrderedJson::array();
  for (const bool value : {true, false}) {
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      other_booleans.push_back(value);
    }
  }
  for (const OrderedJson& value : values) {
    if (value.is_structured()) return std::nullopt;
    types |= value.is_number() ? static_cast<uint8_t>(kNumberType) : TypeOf(value);
    if (value.is_string()) texts.push_back(value.get<std::string>());
    if (!value.is_number()) continue;
    const OrderedJson apart = {{"anyOf",
                                {{{"type", "number"}, {"exclusiveMaximum", value}},
                                 {{"type", "number"}, {"exclusiveMinimum", value}}}}};
    other_numbers.push_back(apart);
  }
  if (types != kAllTypes) parts->push_back(OfTypes(static_cast<uint8_t>(~types & kAllTypes)));
  if (!texts.empty()) {
    const std::string pattern = StrCat("^", OtherStringsRegex(texts), "$");
    parts->push_back({{"type", "string"}, {"pattern", pattern}});
  }
  if (!other_numbers.empty()) parts->push_back({{"allOf", other_numbers}});
  if ((types & kBooleanType) != 0 && !other_booleans.empty()) {
    parts->push_back({{"enum", other_booleans}});
  }
  return OrderedJson(true);
}

bool IsNames(const OrderedJson& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(),
                                         [](const OrderedJson& name) { return name.is_string(); });
}

// What breaks one keyword, added to `parts`. False: that cannot be said, or the keyword must not
// have such a value.
bool AddBroken(const std::string& keyword, const OrderedJson& value, OrderedJson* parts) {
  const auto add = [&](Negation part) {
    if (part && *part != false) parts->push_back(*std::move(part));
    return part.has_value();
  };
  for (const Bound& bound : kNegatedBounds) {
    if (keyword != bound.keyword) continue;
    if (!value.is_number()) return false;
    if (bound.step == 0) return add(OrderedJson{{"type", bound.type}, {bound.broken, value}});
    const double count = value.get<double>(), next = count + bound.step;
    if (count < 0 || count > kNegatedCountMax || count != std::floor(count)) return false;
    if (next < 0) return true;
    return add(OrderedJson{{"type", bound.type}, {bound.broken, static_cast<int64_t>(next)}});
  }
  if (keyword == "type") return add(NegatedType(value));
  if (keyword == "not") return add(value);
  if (keyword == "const") return NegatedValues(OrderedJson::array({value}), parts).has_value();
  if (keyword == "enum") return value.is_array() && NegatedValues(value, parts).has_value();
  if (keyword == "required") {
    if (!IsNames(value)) return false;
    for (const OrderedJson& name : value) {
      const OrderedJson absent = {{name.get<std::string>(), false}};
      parts->push_back({{"type", "object"}, {"properties", absent}});
    }
  }
  if (keyword == "properties") {
    if (!value.is_object()) return false;
    for (const auto& [name, schema] : value.items()) {
      const Negation broken = Negated(schema);
      if (!broken) return false;
      const OrderedJson properties = {{name, *broken}};
      parts->push_back({{"type", "object"},
                        {"properties", properties},
                        {"required", OrderedJson::array({name})}});
    }
  }
  if (keyword == "allOf" || keyword == "anyOf") {
    if (!value.is_array() || value.empty()) return false;
    OrderedJson all = OrderedJson::array();
    for (const OrderedJson& schema : value) {
      const Negation broken = Negated(schema);
      if (!broken) return false;
      (keyword == "allOf" ? *parts : all).push_back(*broken);
    }
    if (keyword == "anyOf") parts->push_back({{"allOf", std::move(all)}});
  }
  return true;
}

OrderedJson Absent(const std::string& name) {
  const OrderedJson properties = {{name, false}};
  return {{"properties", properties}};
}

}  // namespace

std::optional<OrderedJson> Negated(const OrderedJson& schema) {
  if (schema.is_boolean()) return OrderedJson(!schema.get<bool>());
  if (!schema.is_object()) return std::nullopt;
  for (const char* keyword : kNotNegated) {
    if (schema.contains(keyword)) return std::nullopt;
  }
  OrderedJson parts = OrderedJson::array();
  for (const auto& [keyword, value] : schema.items()) {
    if (!AddBroken(keyword, value, &parts)) return std::nullopt;
  }
  if (parts.empty()) return OrderedJson(false);
  return OrderedJson{{"anyOf", std::move(parts)}, {kNegated, true}};
}

std::optional<OrderedJson> WithoutIf(const OrderedJson& schema) {
  const OrderedJson& condition = schema["if"];
  const Negation broken = Negated(condition);
  if (!broken) return std::nullopt;
  const auto both = [&](const OrderedJson& first, const char* branch) {
    OrderedJson all = OrderedJson::array({first});
    if (schema.contains(branch)) all.push_back(schema[branch]);
    return OrderedJson{{"allOf", std::move(all)}};
  };
  return OrderedJson{{"anyOf", {both(condition, "then"), both(*broken, "else")}}};
}

std::optional<OrderedJson> WithoutOneOf(const OrderedJson& schema) {
  const OrderedJson& list = schema["oneOf"];
  OrderedJson any = OrderedJson::array();
  for (const OrderedJson& part : list) {
    OrderedJson all = OrderedJson::array({part});
    for (const OrderedJson& other : list) {
      if (&other == &part) continue;
      Negation broken = Negated(other);
      if (!broken) return std::nullopt;
      all.push_back(*std::move(broken));
    }
    any.push_back({{"allOf", std::move(all)}});
  }
  return OrderedJson{{"anyOf", std::move(any)}};
}

std::optional<OrderedJson> WithoutDependents(const OrderedJson& schema) {
  OrderedJson all = OrderedJson::array();
  // The last is the older form of both.
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const auto dependents = schema.find(keyword);
    if (dependents == schema.end()) continue;
    if (!dependents->is_object()) return std::nullopt;
    const bool is_old = keyword == std::string_view("dependencies");
    for (const auto& [name, needed] : dependents->items()) {
      const bool names =
          is_old ? needed.is_array() : keyword == std::string_view("dependentRequired");
      if (names ? !IsNames(needed) : needed.is_array()) return std::nullopt;
      OrderedJson present = {{"required", OrderedJson::array({name})}};
      const OrderedJson then = names ? OrderedJson{{"required", needed}} : OrderedJson(needed);
      const OrderedJson both = {{"allOf", OrderedJson::array({std::move(present), then})}};
      all.push_back({{"anyOf", OrderedJson::array({Absent(name), both})}});
    }
  }
  return OrderedJson{{"allOf", std::move(all)}};
}

}  // namespace sluice::text
