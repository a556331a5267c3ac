// StrCat(parts...): joins strings, characters and numbers. Floating-point parts print as by %g.
#pragma once

#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>

namespace sluice {

namespace internal {

inline void AppendPart(std::string* out, std::string_view part) { out->append(part); }
inline void AppendPart(std::string* out, const std::string& part) { out->append(part); }
inline void AppendPart(std::string* out, const char* part) { out->append(part); }
inline void AppendPart(std::string* out, char part) { out->push_back(part); }
inline void AppendPart(std::string* out, bool part) { out->append(part ? "true" : "false"); }
template <std::integral T>
void AppendPart(std::string* out, T part) {
  out->append(std::to_string(part));
}
template <std::floating_point T>
void AppendPart(std::string* out, T part) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", static_cast<double>(part));
  out->append(buffer);
}

}  // namespace internal

template <class... Parts>
std::string StrCat(const Parts&... parts) {
  std::string out;
  (internal::AppendPart(&out, parts), ...);
  return out;
}

}  // namespace sluice
