#include "text/structural_tag.h"

#include <utility>

#include "base/json.h"
#include "sluice/limits.h"
#include "text/json_schema.h"
#include "text/whole_regex.h"

namespace sluice::text {
namespace {

OrderedJson FormatOfStructures(const OrderedJson& tag) {
  OrderedJson tags = OrderedJson::array();
  for (const OrderedJson& part : tag["structures"]) {
    if (!part.is_object()) continue;
    OrderedJson content = {{"type", "json_schema"},
                           {"json_schema", part.value("schema", OrderedJson())}};
    tags.push_back({{"type", "tag"},
                    {"begin", part.value("begin", OrderedJson())},
                    {"content", std::move(content)},
                    {"end", part.value("end", OrderedJson())}});
  }
  return {{"type", "triggered_tags"},
          {"triggers", tag.value("triggers", OrderedJson::array())},
          {"tags", std::move(tags)}};
}

Status RewriteParts(bool closed, OrderedJson* part) {
  if (part->is_object() && part->value("type", OrderedJson()) == "json_schema" &&
      part->contains("json_schema")) {
    if (closed && part->erase(kRewrittenMember) > 0) return OkStatus();
    part->erase(std::string(kWrittenAsMember));
    OrderedJson& schema = (*part)["json_schema"];
    SLUICE_ASSIGN_OR_RETURN(
        OrderedJson rewritten,
        RewriteSchema(schema.is_string() ? schema.get<std::string>() : DumpJson(schema), closed));
    // In other styles than JSON the library looks for the properties at the root itself.
    if (part->value("style", OrderedJson("json")) != "json") return OkStatus();
    schema = std::move(rewritten);
    // Else it is compact JSON (LibraryCompiler), which the library's own form of these cannot be.
    const bool own_form = part->contains("excludes") || part->contains("any_order");
    if (own_form && !part->contains("max_whitespace_cnt")) (*part)["max_whitespace_cnt"] = 1;
    return OkStatus();
  }
  if (part->is_object() && part->value("type", OrderedJson()) == "regex" &&
      part->contains("pattern") && (*part)["pattern"].is_string()) {
    SLUICE_ASSIGN_OR_RETURN((*part)["pattern"], WholeRegex((*part)["pattern"].get<std::string>()));
    return OkStatus();
  }
  if (!part->is_structured()) return OkStatus();
  for (OrderedJson& inner : *part) SLUICE_RETURN_IF_ERROR(RewriteParts(closed, &inner));
  return OkStatus();
}

}  // namespace

Result<std::string> RewriteStructuralTag(std::string_view tag, bool closed) {
  JsonLimits limits;
  limits.depth_max = kSchemaDepthMax;
  if (!closed) {  // ours is longer than what clients wrote, and that was held to limits before
    limits.bytes_max = limits::kGrammarBytesMax;
    limits.values_max = kSchemaValuesMax;
  }
  auto json = ParseOrderedJson(tag, "the structural tag", limits);
  if (!json.ok()) return InvalidArgument(json.status().message(), "grammar");
  if (!json->is_object()) {
    return InvalidArgument("the structural tag is no object; it must have a format", "grammar");
  }
  if (!json->contains("format") && json->contains("structures")) {
    *json = {{"type", "structural_tag"}, {"format", FormatOfStructures(*json)}};
  }
  if (!json->contains("format")) {
    return InvalidArgument("the structural tag has no format; give it one", "grammar");
  }
  // In a tag of ours only schemas that were rewritten before have such texts.
  if (!closed && DumpJson(*json).find(kNumberText) != std::string::npos) {
    return InvalidArgument("the structural tag has U+FDD0 in it, which is no character", "grammar");
  }
  SLUICE_RETURN_IF_ERROR(RewriteParts(closed, &*json));
  return DumpJson(*json);
}

}  // namespace sluice::text
