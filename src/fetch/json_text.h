// One text of what a server or an earlier run wrote.
#pragma once

#include <string>

#include "base/json.h"

namespace sluice::fetch {

// Empty: `object` is none, or has no text of that name.
inline std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace sluice::fetch
