// Takes one file out of a ZIP archive, stored or deflated. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "files/zip_directory.h"

namespace sluice::fetch {

// Gives the entry's bytes to `sink`, whose errors it returns. kBadModel: the entry is packed in a
// way that is not supported, breaks off, is longer than it says, or has another CRC-32.
Status ExtractZipEntry(const files::ZipSource& source, const files::ZipEntry& entry,
                       const std::function<Status(std::span<const std::byte>)>& sink);

}  // namespace sluice::fetch
