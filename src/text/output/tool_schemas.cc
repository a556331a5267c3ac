#include "text/output/tool_schemas.h"

#include "base/json.h"

namespace sluice::text {
namespace {

const Json* Member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// A value may be a text where any of the types that its schema allows is one.
ToolSchemas::Kind KindOfSchema(const Json& schema) {
  const Json* const type = Member(schema, "type");
  if (type == nullptr) return ToolSchemas::Kind::kAny;
  if (type->is_string())
    return *type == "string" ? ToolSchemas::Kind::kText : ToolSchemas::Kind::kJson;
  return ToolSchemas::Kind::kAny;
}

}  // namespace

Result<ToolSchemas> ToolSchemas::Make(const std::string& tools_json) {
  ToolSchemas schemas;
  if (tools_json.empty()) return schemas;
  SLUICE_ASSIGN_OR_RETURN(const Json tools, ParseJson(tools_json, "tools"));
  for (const Json& tool : tools) {
    const Json* const function = Member(tool, "function");
    const Json* const name = function == nullptr ? nullptr : Member(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    Parameters& parameters = schemas.tools_[name->get<std::string>()];
    const Json* const schema = Member(*function, "parameters");
    const Json* const properties = schema == nullptr ? nullptr : Member(*schema, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [key, value] : properties->items()) parameters[key] = KindOfSchema(value);
  }
  return schemas;
}

ToolSchemas::Kind ToolSchemas::KindOf(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return Kind::kAny;
  const auto kind = found->second.find(parameter);
  return kind == found->second.end() ? Kind::kAny : kind->second;
}

}  // namespace sluice::text
