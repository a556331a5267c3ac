#include "text/output/tool_schemas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace sluice::text {
namespace {

using Values = ToolSchemas::Values;

constexpr uint8_t kNull = 1, kBoolean = 2, kInteger = 4, kFraction = 8, kString = 16, kArray = 32,
                  kObject = 64;
// Schemas within each other, and all that are looked at of a request's tools, with the texts that
// they list wherever these are listed: behind that anything goes.
constexpr int kDepthMax = 16;
constexpr size_t kStepsMax = 65'536;

const Json* Member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

uint8_t TypeNamed(const Json& name) {
  constexpr std::array<std::pair<const char*, uint8_t>, 7> kTypes = {{{"null", kNull},
                                                                      {"boolean", kBoolean},
                                                                      {"integer", kInteger},
                                                                      {"number", 12},
                                                                      {"string", kString},
                                                                      {"array", kArray},
                                                                      {"object", kObject}}};
  for (const auto& [known, types] : kTypes) {
    if (name == known) return types;
  }
  return Values().types;
}

uint8_t TypeOf(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  const bool fraction =
      value.is_number_float() && value.get<double>() != std::floor(value.get<double>());
  return fraction ? kFraction : kInteger;
}

// Reads the schemas of one tool. `steps` counts those of all.
class SchemaReader {
 public:
  SchemaReader(const Json& root, size_t* steps) : root_(root), steps_(*steps) {}

  // The values of each property that the schema names.
  std::map<std::string, Values, std::less<>> Properties(const Json& schema) {
    std::map<std::string, Values, std::less<>> named;
    AddProperties(schema, 0, &named);
    return named;
  }

 private:
  // Of schemas that hold both.
  void Intersect(const Values& other, Values* values) {
    values->types &= other.types;
    List(other, values);
  }
  void Unite(const Values& other, Values* values) {
    values->types |= other.types;
    List(other, values);
  }
  void List(const Values& other, Values* values) {
    steps_ += other.strings.size();
    if (steps_ <= kStepsMax) values->strings.insert(other.strings.begin(), other.strings.end());
  }

  Values Of(const Json& schema, int depth) {
    Values values;
    if (!schema.is_object() || depth > kDepthMax || ++steps_ > kStepsMax) return values;
    values = Permitted(schema, depth);
    return steps_ > kStepsMax ? Values() : values;
  }

  Values Permitted(const Json& schema, int depth) {
    Values values;
    if (const Json* const type = Member(schema, "type")) {
      uint8_t types = type->is_array() ? 0 : TypeNamed(*type);
      if (type->is_array()) {
        for (const Json& name : *type) types |= TypeNamed(name);
      }
      values.types &= types;
    }
    if (const Json* const only = Member(schema, "const")) {
      Intersect(Listed(Json::array({*only})), &values);
    }
    if (const Json* const list = Member(schema, "enum"); list != nullptr && list->is_array()) {
      Intersect(Listed(*list), &values);
    }
    if (const Json* const target = Target(schema)) Intersect(Of(*target, depth + 1), &values);
    for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
      const Json* const parts = Member(schema, keyword);
      if (parts == nullptr || !parts->is_array() || parts->empty()) continue;
      Values any = {.types = 0, .strings = {}};
      for (const Json& part : *parts) {
        const Values each = Of(part, depth + 1);
        keyword[1] == 'l' ? Intersect(each, &values) : Unite(each, &any);
      }
      if (keyword[1] != 'l') Intersect(any, &values);
    }
    return values;
  }

  Values Listed(const Json& list) {
    Values values = {.types = 0, .strings = {}};
    steps_ += list.size();
    if (steps_ > kStepsMax) return Values();
    for (const Json& value : list) {
      values.types |= TypeOf(value);
      if (value.is_string()) values.strings.insert(value.get<std::string>());
    }
    return values;
  }

  // What "$ref" refers to, by its place in the tool's schema; else null.
  const Json* Target(const Json& schema) const {
    const Json* const reference = Member(schema, "$ref");
    if (reference == nullptr || !reference->is_string()) return nullptr;
    std::string_view rest = reference->get_ref<const std::string&>();
    if (!rest.starts_with('#')) return nullptr;
    rest.remove_prefix(1);
    const Json* at = &root_;
    while (rest.starts_with('/') && at != nullptr) {
      rest.remove_prefix(1);
      std::string step;
      for (; !rest.empty() && rest[0] != '/'; rest.remove_prefix(1)) {
        const bool escape = rest[0] == '~' && rest.size() > 1;
        if (escape) rest.remove_prefix(1);
        step += !escape ? rest[0] : rest[0] == '1' ? '/' : '~';
      }
      at = Member(*at, step.c_str());
    }
    return rest.empty() ? at : nullptr;
  }

  void AddProperties(const Json& schema, int depth,
                     std::map<std::string, Values, std::less<>>* named) {
    if (!schema.is_object() || depth > kDepthMax || ++steps_ > kStepsMax) return;
    const Json* const properties = Member(schema, "properties");
    if (properties != nullptr && properties->is_object()) {
      for (const auto& [name, part] : properties->items()) {
        const Values values = Of(part, 0);
        const auto [known, is_new] = named->try_emplace(name, values);
        if (!is_new) Unite(values, &known->second);
      }
    }
    if (const Json* const target = Target(schema)) AddProperties(*target, depth + 1, named);
    for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
      const Json* const parts = Member(schema, keyword);
      if (parts == nullptr || !parts->is_array()) continue;
      for (const Json& part : *parts) AddProperties(part, depth + 1, named);
    }
  }

  const Json& root_;
  size_t& steps_;
};

// Whether that is how JSON writes a number that no double holds.
bool IsLargeNumber(std::string_view text) {
  const auto digits = [&text] {
    size_t count = 0;
    while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
    text.remove_prefix(count);
    return count;
  };
  const std::string whole(text);
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool zero = text.starts_with('0');
  const size_t before = digits();
  if (before == 0 || (zero && before > 1)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  return text.empty() && std::isinf(std::strtod(whole.c_str(), nullptr));
}

}  // namespace

std::string JsonSpelling(std::string_view value) {
  if (value == "True") return "true";
  if (value == "False") return "false";
  return value == "None" ? "null" : std::string(value);
}

std::optional<Json> ReadWrittenValue(std::string_view json) {
  auto parsed = ParseJson(json, "value");
  if (parsed.ok()) return *std::move(parsed);
  // Once more with 1 for each such number.
  std::string held;
  bool in_text = false, changed = false;
  for (size_t at = 0; at < json.size();) {
    const char c = json[at];
    const bool begins = !in_text && (c == '-' || (c >= '0' && c <= '9'));
    if (begins) {
      const size_t end = std::min(json.find_first_not_of("+-.0123456789eE", at), json.size());
      const std::string_view number = json.substr(at, end - at);
      const bool large = IsLargeNumber(number);
      changed = changed || large;
      held += large ? std::string_view("1") : number;
      at = end;
      continue;
    }
    const size_t bytes = in_text && c == '\\' ? std::min<size_t>(2, json.size() - at) : 1;
    in_text = in_text != (c == '"');
    held += json.substr(at, bytes);
    at += bytes;
  }
  if (!changed) return std::nullopt;
  parsed = ParseJson(held, "value");
  if (!parsed.ok()) return std::nullopt;
  return *std::move(parsed);
}

Result<ToolSchemas> ToolSchemas::Make(const std::string& tools_json) {
  ToolSchemas schemas;
  if (tools_json.empty()) return schemas;
  SLUICE_ASSIGN_OR_RETURN(const Json tools, ParseJson(tools_json, "tools"));
  size_t steps = 0;
  for (const Json& tool : tools) {
    const Json* const function = Member(tool, "function");
    const Json* const name = function == nullptr ? nullptr : Member(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    Parameters& parameters = schemas.tools_[name->get<std::string>()];
    const Json* const schema = Member(*function, "parameters");
    if (schema != nullptr) parameters = SchemaReader(*schema, &steps).Properties(*schema);
  }
  return schemas;
}

const Values* ToolSchemas::Find(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return nullptr;
  const auto values = found->second.find(parameter);
  return values == found->second.end() ? nullptr : &values->second;
}

ToolSchemas::Kind ToolSchemas::KindOf(std::string_view tool, std::string_view parameter) const {
  const Values* const values = Find(tool, parameter);
  if (values == nullptr || values->types == 0) return Kind::kAny;
  if (values->types == kString) return Kind::kText;
  return (values->types & kString) != 0 ? Kind::kAny : Kind::kJson;
}

bool ToolSchemas::IsText(std::string_view tool, std::string_view parameter, std::string_view text,
                         const Json& value) const {
  const Values* const values = Find(tool, parameter);
  if (values == nullptr || (values->types & kString) == 0) return false;
  return values->strings.contains(text) || (values->types & TypeOf(value)) == 0;
}

bool ToolSchemas::IsTextOrNull(std::string_view tool, std::string_view parameter) const {
  const Values* const values = Find(tool, parameter);
  return values != nullptr && values->types == (kString | kNull);
}

}  // namespace sluice::text
