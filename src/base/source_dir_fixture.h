// For tests: the checkout's folder. One source alone is compiled with it, so that what the others
// compile to is the same in every checkout and the compiler cache serves them all.
#pragma once

#include <string>

namespace sluice {

// Without a slash at its end.
std::string SourceDir();

}  // namespace sluice
