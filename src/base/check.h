// CHECK crashes with file, line, condition and message. It guards against our own defects; a user's
// input must never reach one (that is what Status is for). Active in release builds too.
#pragma once

#include <string>

#include "base/str_cat.h"

namespace sluice {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

}  // namespace sluice

// CHECK(x < n, "x=", x, " n=", n)
#define CHECK(condition, ...)                                                               \
  do {                                                                                      \
    if (__builtin_expect(!(condition), 0))                                                  \
      ::sluice::CheckFailed(__FILE__, __LINE__, #condition, ::sluice::StrCat(__VA_ARGS__)); \
  } while (false)
