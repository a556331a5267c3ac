// What parsers need to know of a request's tools. Immutable after Make; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::text {

class ToolSchemas {
 public:
  ToolSchemas() = default;
  // `tools_json`: an array as OpenAI has it, or empty. What is not of that form is left out.
  static Result<ToolSchemas> Make(const std::string& tools_json);

  bool Has(std::string_view tool) const { return tools_.find(tool) != tools_.end(); }
  // Of a parameter that the model writes as plain text. kAny: its schema does not say.
  enum class Kind { kAny, kText, kJson };
  Kind KindOf(std::string_view tool, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, Kind, std::less<>>;
  std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace sluice::text
