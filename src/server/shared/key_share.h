// How the places of a list that has a limit are shared between API keys.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::server {

// Whether a key that has `own` of `max` places, of which all keys together have `taken`, may take
// one more: only while it then has no more than what stays free. So the first gets half at most,
// the next half of the rest; no key can take all of them, and one key alone has many. An empty key
// stands for everybody, where no keys are asked for, and may take all.
inline bool MayTakePlace(const std::string& key, size_t own, size_t taken, size_t max) {
  return taken + (key.empty() ? 0 : own) < max;
}

}  // namespace sluice::server
