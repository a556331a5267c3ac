#include "files/zip_directory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {
namespace {

constexpr uint64_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr uint64_t kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr size_t kEntryBytes = 46, kLocalBytes = 30, kCommentBytesMax = 0xffff;
constexpr uint64_t kIn64Bits = 0xffffffff;  // the number stands in the entry's 64-bit form
constexpr uint64_t kExtra64 = 1;

// Little endian, as all numbers of the format. REQUIRES: it lies within `bytes`.
uint64_t Number(std::span<const std::byte> bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[at + i]);
  return value;
}

bool LiesWithin(const ZipSource& source, uint64_t begin, uint64_t size) {
  return begin <= source.size && size <= source.size - begin;
}

struct Directory {
  uint64_t entries = 0, bytes = 0, begin = 0;
};

// In the form of 64 bits, whose locator would stand right before `end`.
Result<std::optional<Directory>> FindDirectory64(const ZipSource& source, uint64_t end) {
  if (end < kLocator64Bytes) return std::optional<Directory>();
  std::array<std::byte, kLocator64Bytes> locator;
  SLUICE_RETURN_IF_ERROR(source.read(end - kLocator64Bytes, locator));
  if (Number(locator, 0, 4) != kLocator64Mark) return std::optional<Directory>();
  const uint64_t at = Number(locator, 8, 8);
  std::array<std::byte, kEnd64Bytes> wide = {};
  if (LiesWithin(source, at, wide.size())) SLUICE_RETURN_IF_ERROR(source.read(at, wide));
  if (Number(wide, 0, 4) != kEnd64Mark) return WrongZip("has no end where it says");
  return std::optional(Directory{Number(wide, 32, 8), Number(wide, 40, 8), Number(wide, 48, 8)});
}

// By the record at the end of the archive, behind which only a comment stands.
Result<Directory> FindDirectory(const ZipSource& source) {
  std::vector<std::byte> tail(std::min<uint64_t>(source.size, kEndBytes + kCommentBytesMax));
  SLUICE_RETURN_IF_ERROR(source.read(source.size - tail.size(), tail));
  for (size_t behind = kEndBytes; behind <= tail.size(); ++behind) {
    const size_t at = tail.size() - behind;
    const bool found =
        Number(tail, at, 4) == kEndMark && Number(tail, at + 20, 2) == tail.size() - at - kEndBytes;
    if (!found) continue;
    SLUICE_ASSIGN_OR_RETURN(const auto wide, FindDirectory64(source, source.size - behind));
    if (wide) return *wide;
    return Directory{Number(tail, at + 10, 2), Number(tail, at + 12, 4), Number(tail, at + 16, 4)};
  }
  return BadModel("it is no zip file, or its end is missing; the download may be incomplete");
}

// Those of the entry's numbers that do not fit into 32 bits, in this order.
Status ReadExtra64(std::span<const std::byte> extra, ZipEntry* entry) {
  while (extra.size() >= 4) {
    const size_t size = Number(extra, 2, 2);
    if (size > extra.size() - 4) break;
    if (Number(extra, 0, 2) == kExtra64) {
      size_t at = 0;
      for (uint64_t* number : {&entry->bytes, &entry->packed_bytes, &entry->header}) {
        if (*number != kIn64Bits) continue;
        if (at + 8 > size) return WrongZip("has an entry without its size");
        *number = Number(extra, 4 + at, 8);
        at += 8;
      }
      return OkStatus();
    }
    extra = extra.subspan(4 + size);
  }
  return OkStatus();
}

}  // namespace

Status WrongZip(std::string_view what) {
  return BadModel(StrCat("the zip file ", what, "; the download may be incomplete"));
}

Result<std::vector<ZipEntry>> ReadZipDirectory(const ZipSource& source) {
  SLUICE_ASSIGN_OR_RETURN(const Directory place, FindDirectory(source));
  if (place.entries > kZipEntriesMax || place.bytes > kZipDirectoryBytesMax ||
      !LiesWithin(source, place.begin, place.bytes)) {
    return WrongZip(StrCat("has a directory of ", place.entries, " entries and ", place.bytes,
                           " bytes at ", place.begin, ", which is above the limit or outside"));
  }
  std::vector<std::byte> directory(place.bytes);
  SLUICE_RETURN_IF_ERROR(source.read(place.begin, directory));
  std::vector<ZipEntry> entries;
  std::span<const std::byte> rest = directory;
  for (uint64_t i = 0; i < place.entries; ++i) {
    if (rest.size() < kEntryBytes || Number(rest, 0, 4) != kEntryMark) {
      return WrongZip(StrCat("has ", i, " files in its directory and says ", place.entries));
    }
    const size_t name = Number(rest, 28, 2), extra = Number(rest, 30, 2);
    const size_t bytes = kEntryBytes + name + extra + Number(rest, 32, 2);
    if (rest.size() < bytes) return WrongZip("has a directory that breaks off");
    ZipEntry& entry = entries.emplace_back();
    entry.encrypted = (Number(rest, 8, 2) & 1) != 0;
    entry.method = static_cast<uint16_t>(Number(rest, 10, 2));
    entry.crc = static_cast<uint32_t>(Number(rest, 16, 4));
    entry.packed_bytes = Number(rest, 20, 4);
    entry.bytes = Number(rest, 24, 4);
    entry.header = Number(rest, 42, 4);
    entry.name.assign(reinterpret_cast<const char*>(rest.data()) + kEntryBytes, name);
    SLUICE_RETURN_IF_ERROR(ReadExtra64(rest.subspan(kEntryBytes + name, extra), &entry));
    rest = rest.subspan(bytes);
  }
  return entries;
}

Result<uint64_t> ZipDataOffset(const ZipSource& source, const ZipEntry& entry) {
  std::array<std::byte, kLocalBytes> local = {};
  if (LiesWithin(source, entry.header, local.size())) {
    SLUICE_RETURN_IF_ERROR(source.read(entry.header, local));
  }
  const uint64_t begin = entry.header + kLocalBytes + Number(local, 26, 2) + Number(local, 28, 2);
  if (Number(local, 0, 4) == kLocalMark && LiesWithin(source, begin, entry.packed_bytes)) {
    return begin;
  }
  return WrongZip(StrCat("has no bytes of ", Quote(entry.name), " where its directory says"));
}

Result<std::map<std::string, std::span<const std::byte>>> StoredZipEntries(
    std::span<const std::byte> bytes) {
  const ZipSource source{bytes.size(), [bytes](uint64_t offset, std::span<std::byte> out) {
                           const auto from = bytes.subspan(offset, out.size());
                           std::copy(from.begin(), from.end(), out.begin());
                           return OkStatus();
                         }};
  SLUICE_ASSIGN_OR_RETURN(const auto entries, ReadZipDirectory(source));
  std::map<std::string, std::span<const std::byte>> contents;
  for (const ZipEntry& entry : entries) {
    if (entry.encrypted || entry.method != 0 || entry.packed_bytes != entry.bytes) {
      return BadModel(
          StrCat("the entry ", Quote(entry.name), " of the zip file is packed; it must be stored"));
    }
    SLUICE_ASSIGN_OR_RETURN(const uint64_t begin, ZipDataOffset(source, entry));
    if (!contents.emplace(entry.name, bytes.subspan(begin, entry.bytes)).second) {
      return BadModel(StrCat("the zip file has the entry ", Quote(entry.name), " twice"));
    }
  }
  return contents;
}

}  // namespace sluice::files
