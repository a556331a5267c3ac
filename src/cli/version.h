// What this program is.
#pragma once

#include <string>

namespace sluice::cli {

// Version, commit, compiler and the backends built in.
std::string VersionText();

}  // namespace sluice::cli
