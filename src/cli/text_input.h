// Reads a text that a command was given. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "sluice/status.h"

namespace sluice::cli {

inline constexpr size_t kTextBytesMax = size_t{1} << 30;

// All of the file `path`, which may be a pipe, or of standard input where it is empty.
// kInvalidArgument when it can't be read (a folder, say) or is longer than kTextBytesMax.
Result<std::string> ReadText(const std::string& path);

}  // namespace sluice::cli
