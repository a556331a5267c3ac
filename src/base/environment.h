// Variables of the process's environment. Any thread, as long as none sets variables.
#pragma once

#include <cstdlib>
#include <string>

namespace sluice {

// Empty where the variable is not set: no reader tells that from an empty one.
inline std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace sluice
