// Reads a text that a command was given. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "sluice/status.h"

namespace sluice::cli {

inline constexpr size_t kTextBytesMax = size_t{1} << 30;

// All of the file `path`, or of standard input where it is empty. kInvalidArgument when it can't be
// read (a folder, say) or is longer than `bytes_max`.
Result<std::string> ReadText(const std::string& path, size_t bytes_max = kTextBytesMax);

}  // namespace sluice::cli
