#include "files/zip_entries.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::files {
namespace {

static_assert(std::endian::native == std::endian::little, "zip files are read in place");

constexpr uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr uint32_t kCentralMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr size_t kCentralBytes = 46, kLocalBytes = 30, kCommentBytesMax = 65535;
constexpr uint32_t kIn64Bits = UINT32_MAX;  // the number stands in the entry's 64-bit form
constexpr uint16_t kExtra64 = 1;
constexpr uint64_t kEntriesMax = 1u << 17;

// Reads numbers of a part of the file whose size was checked.
class Record {
 public:
  Record() = default;
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint16_t U16(size_t at) const { return Number<uint16_t>(at); }
  uint32_t U32(size_t at) const { return Number<uint32_t>(at); }
  uint64_t U64(size_t at) const { return Number<uint64_t>(at); }

 private:
  template <class T>
  T Number(size_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  std::span<const std::byte> bytes_;
};

std::optional<std::span<const std::byte>> Part(std::span<const std::byte> bytes, uint64_t begin,
                                               uint64_t size) {
  if (begin > bytes.size() || size > bytes.size() - begin) return std::nullopt;
  return bytes.subspan(begin, size);
}

Status Damaged(std::string_view what) {
  return BadModel(StrCat("the zip file is damaged: ", what, "; the download may be incomplete"));
}

struct Directory {
  uint64_t entries = 0, begin = 0, size = 0;
};

Result<Directory> FindDirectory(std::span<const std::byte> bytes) {
  const size_t least = bytes.size() - std::min(bytes.size(), kEndBytes + kCommentBytesMax);
  for (size_t at = bytes.size() - std::min(bytes.size(), kEndBytes - 1); at-- > least;) {
    if (bytes.size() - at < kEndBytes) continue;
    const Record end(bytes.subspan(at));
    if (end.U32(0) != kEndMark) continue;
    Directory directory{end.U16(10), end.U32(16), end.U32(12)};
    if (at < kLocator64Bytes) return directory;
    const Record locator(bytes.subspan(at - kLocator64Bytes));
    if (locator.U32(0) != kLocator64Mark) return directory;
    const auto part = Part(bytes, locator.U64(8), kEnd64Bytes);
    if (!part || Record(*part).U32(0) != kEnd64Mark)
      return Damaged("its end does not stand where it says");
    const Record wide(*part);
    return Directory{wide.U64(32), wide.U64(48), wide.U64(40)};
  }
  return BadModel("it is no zip file, or its end is missing; the download may be incomplete");
}

struct Entry {
  std::string_view name;
  uint64_t packed = 0, size = 0, local = 0;
  int method = 0;
};

// Those of the entry's numbers that do not fit into 32 bits, in this order.
Status ReadExtra64(std::span<const std::byte> extra, Entry* entry) {
  while (extra.size() >= 4) {
    const Record record(extra);
    const size_t size = record.U16(2);
    if (size > extra.size() - 4) break;
    if (record.U16(0) == kExtra64) {
      size_t at = 0;
      for (uint64_t* number : {&entry->size, &entry->packed, &entry->local}) {
        if (*number != kIn64Bits) continue;
        if (at + 8 > size) return Damaged("an entry's size is missing");
        *number = record.U64(4 + at);
        at += 8;
      }
      return OkStatus();
    }
    extra = extra.subspan(4 + size);
  }
  return OkStatus();
}

Result<std::span<const std::byte>> ContentOf(std::span<const std::byte> bytes, const Entry& entry) {
  if (entry.method != 0 || entry.packed != entry.size)
    return BadModel(
        StrCat("the entry ", Quote(entry.name), " of the zip file is packed; it must be stored"));
  const auto header = Part(bytes, entry.local, kLocalBytes);
  if (!header || Record(*header).U32(0) != kLocalMark)
    return Damaged(StrCat("the entry ", Quote(entry.name), " does not stand where it says"));
  const uint64_t skipped = uint64_t{Record(*header).U16(26)} + Record(*header).U16(28);
  const auto content = Part(bytes, entry.local + kLocalBytes + skipped, entry.size);
  if (!content)
    return Damaged(StrCat("the entry ", Quote(entry.name), " of ", entry.size,
                          " bytes reaches beyond the file"));
  return *content;
}

}  // namespace

Result<std::map<std::string_view, std::span<const std::byte>>> ReadZipEntries(
    std::span<const std::byte> bytes) {
  SLUICE_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(bytes));
  if (directory.entries > kEntriesMax)
    return BadModel(
        StrCat("the zip file has ", directory.entries, " entries; the limit is ", kEntriesMax));
  const auto part = Part(bytes, directory.begin, directory.size);
  if (!part) return Damaged("its directory reaches beyond the file");
  std::map<std::string_view, std::span<const std::byte>> contents;
  std::span<const std::byte> rest = *part;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < kCentralBytes || Record(rest).U32(0) != kCentralMark)
      return Damaged("its directory has fewer entries than it says");
    const Record record(rest);
    const size_t name = record.U16(28), extra = record.U16(30), comment = record.U16(32);
    if (name + extra + comment > rest.size() - kCentralBytes)
      return Damaged("an entry reaches beyond the directory");
    Entry entry;
    entry.name = {reinterpret_cast<const char*>(rest.data()) + kCentralBytes, name};
    entry.method = record.U16(10);
    entry.packed = record.U32(20);
    entry.size = record.U32(24);
    entry.local = record.U32(42);
    SLUICE_RETURN_IF_ERROR(ReadExtra64(rest.subspan(kCentralBytes + name, extra), &entry));
    SLUICE_ASSIGN_OR_RETURN(const auto content, ContentOf(bytes, entry));
    if (!contents.emplace(entry.name, content).second)
      return BadModel(StrCat("the zip file has the entry ", Quote(entry.name), " twice"));
    rest = rest.subspan(kCentralBytes + name + extra + comment);
  }
  return contents;
}

}  // namespace sluice::files
