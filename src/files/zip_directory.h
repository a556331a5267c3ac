// What a ZIP archive holds, and where: PKWARE's APPNOTE.TXT, sections 4.3 and 4.4, with the 64-bit
// forms of sizes and offsets. Nothing that an archive says of itself is taken without a bound. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::files {

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

// kBadModel: "the zip file " and what is wrong with it.
Status WrongZip(std::string_view what);

inline constexpr uint64_t kZipDirectoryBytesMax = 16u << 20;
inline constexpr uint64_t kZipEntriesMax = 1u << 17;

// The archive's directory. kBadModel: it is none, is over a limit, or contradicts itself; and what
// `read` returns.
Result<std::vector<ZipEntry>> ReadZipDirectory(const ZipSource& source);

// Where the packed bytes of an entry begin, all of which lie within the source. Errors as above.
Result<uint64_t> ZipDataOffset(const ZipSource& source, const ZipEntry& entry);

// The contents of an archive whose files are all stored, by their names; they point into `bytes`.
// kBadModel also: a file is packed, or a name comes twice.
Result<std::map<std::string, std::span<const std::byte>>> StoredZipEntries(
    std::span<const std::byte> bytes);

}  // namespace sluice::files
