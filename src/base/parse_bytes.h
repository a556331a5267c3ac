// Sizes as people write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// "512MiB", "2GiB", "1.5 GB", "4096": a number and B, KB, KiB, MB, MiB, GB, GiB, TB or TiB (any
// case; none: bytes). kInvalidArgument, naming `what`, for anything else and for sizes that do not
// fit.
Result<size_t> ParseBytes(std::string_view text, std::string_view what);

// In the largest unit that leaves at least one, with four digits: "1 B", "93.81 MiB", "100 TiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace sluice
