// What a zip file holds, without unpacking: the files that are stored as they are, by their names.
// Every offset and size is checked against the bytes. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string_view>

#include "sluice/status.h"

namespace sluice::files {

// Names and contents point into `bytes`. kBadModel: no zip file, a damaged one, one with packed
// files, a name that comes twice, or more entries than a model has. Format: APPNOTE 6.3 of PKWARE,
// with the 64-bit forms of sizes and offsets.
Result<std::map<std::string_view, std::span<const std::byte>>> ReadZipEntries(
    std::span<const std::byte> bytes);

}  // namespace sluice::files
