#include "server/experts_api.h"

#include <charconv>

#include "base/json.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/target.h"

namespace sluice::server {

Result<std::string> ReadExpertsQuery(std::string_view query) {
  OrderedJson command{{"command", "experts"}};
  for (const char* name : {"ranks", "replicas", "nodes"}) {
    const std::string text = QueryValue(query, name);
    if (text.empty()) continue;
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || read != end) {
      return InvalidArgument(StrCat(name, " is ", Quote(text), ", which is no whole number"), name);
    }
    command[name] = value;
  }
  return DumpJson(command);
}

}  // namespace sluice::server
