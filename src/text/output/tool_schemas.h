// What parsers need to know of a request's tools. Immutable after Make; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "sluice/status.h"

namespace sluice::text {

// As JSON writes a value that Python may have written: True, False and None.
std::string JsonSpelling(std::string_view value);
// The value that a text is; nothing: it is no JSON. Numbers that no double holds, all of which are
// integers, read as 1.
std::optional<Json> ReadWrittenValue(std::string_view json);

class ToolSchemas {
 public:
  // The values that a schema permits, as far as can be told; never fewer.
  struct Values {
    uint8_t types = 0x7F;                        // bits, one for each type of JSON values
    std::set<std::string, std::less<>> strings;  // that it lists
  };

  ToolSchemas() = default;
  // `tools_json`: an array as OpenAI has it, or empty. What is not of that form is left out.
  static Result<ToolSchemas> Make(const std::string& tools_json);

  bool Has(std::string_view tool) const { return tools_.find(tool) != tools_.end(); }
  // Of a parameter that the model writes as plain text. kAny: its schema does not say.
  enum class Kind { kAny, kText, kJson };
  Kind KindOf(std::string_view tool, std::string_view parameter) const;
  // Whether what is written as `text`, and is `value` if it is read as JSON, is meant as a text:
  // the schema lists it, or it permits texts and no value of that type.
  bool IsText(std::string_view tool, std::string_view parameter, std::string_view text,
              const Json& value) const;
  // Whether its schema permits texts and null, and nothing else: what does not read as null is a
  // text.
  bool IsTextOrNull(std::string_view tool, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, Values, std::less<>>;
  const Values* Find(std::string_view tool, std::string_view parameter) const;

  std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace sluice::text
