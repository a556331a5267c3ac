// Reads one file of a ZIP archive, as far as wheels need it: stored or deflated, below 4 GiB, no
// encryption (PKWARE's APPNOTE.TXT, sections 4.3 and 4.4). Nothing that an archive says of itself
// is taken without a bound. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::fetch {

struct ZipEntry {
  std::string name;
  uint16_t method = 0;  // 0: stored, 8: deflated
  bool encrypted = false;
  uint32_t crc = 0;
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t header = 0;  // where its local header begins
};

// Where an archive's bytes come from.
struct ZipSource {
  uint64_t size = 0;
  // Fills `bytes` from `offset` on. REQUIRES: they lie within the size.
  std::function<Status(uint64_t offset, std::span<std::byte> bytes)> read;
};

inline constexpr uint64_t kZipDirectoryBytesMax = 16u << 20;

// The archive's directory. kIo: it is none, is over a limit, or contradicts itself.
Result<std::vector<ZipEntry>> ReadZipDirectory(const ZipSource& source);

// Gives the entry's bytes to `sink`, whose errors it returns. kIo: the entry is packed in a way
// that is not supported, breaks off, is longer than it says, or has another CRC-32.
Status ExtractZipEntry(const ZipSource& source, const ZipEntry& entry,
                       const std::function<Status(std::span<const std::byte>)>& sink);

}  // namespace sluice::fetch
