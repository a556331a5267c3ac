#include "fetch/zip_file.h"

#include <zlib.h>

#include <algorithm>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::fetch {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50, kEntrySignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30;
constexpr size_t kCommentBytesMax = 0xffff;
constexpr uint32_t kInZip64 = 0xffffffff;
constexpr size_t kPieceBytes = 256u << 10;

Status Wrong(std::string_view what) {
  return {StatusCode::kIo, StrCat("the archive ", what,
                                  "; fetch it again, from another index if "
                                  "that does not help")};
}

// Little endian, as all numbers of the format. REQUIRES: it lies within `bytes`.
uint32_t Number(std::span<const std::byte> bytes, size_t at, size_t width) {
  uint32_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  return value;
}

struct End {
  uint32_t entries, bytes, offset;
};

// The record at the end of the archive, behind which only a comment stands.
Result<End> FindEnd(const ZipSource& source) {
  if (source.size < kEndBytes) return Wrong("is too short for a ZIP archive");
  std::vector<std::byte> tail(std::min<uint64_t>(source.size, kEndBytes + kCommentBytesMax));
  SLUICE_RETURN_IF_ERROR(source.read(source.size - tail.size(), tail));
  for (size_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    const bool found = Number(tail, at, 4) == kEndSignature &&
                       Number(tail, at + 20, 2) == tail.size() - at - kEndBytes;
    if (!found) continue;
    const uint64_t end_offset = source.size - tail.size() + at;
    const End end{Number(tail, at + 10, 2), Number(tail, at + 12, 4), Number(tail, at + 16, 4)};
    if (end.offset == kInZip64 || Number(tail, at + 4, 4) != 0 ||
        Number(tail, at + 8, 2) != end.entries) {
      return Wrong("is in ZIP64's form or in several volumes, which is not supported");
    }
    if (end.bytes > kZipDirectoryBytesMax || uint64_t{end.offset} + end.bytes > end_offset) {
      return Wrong(StrCat("has a directory of ", end.bytes, " bytes at ", end.offset,
                          ", which is above the limit or outside"));
    }
    return end;
  }
  return Wrong("has no directory of a ZIP archive");
}

// What follows is read and unpacked piece by piece; `left` of the packed bytes are to come.
class Inflater {
 public:
  Inflater() { started_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK; }
  ~Inflater() {
    if (started_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Unpacks all of `packed`; bytes behind the end of the data are an error.
  Status Add(std::span<std::byte> packed,
             const std::function<Status(std::span<const std::byte>)>& sink) {
    if (!started_) return {StatusCode::kInternal, "zlib cannot be started"};
    stream_.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream_.avail_in = static_cast<uInt>(packed.size());
    do {
      if (ended_) return Wrong("has bytes behind the end of a file's data");
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      ended_ = code == Z_STREAM_END;
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return Wrong("has data that is not deflated");
      }
      SLUICE_RETURN_IF_ERROR(sink(std::span(out_).first(out_.size() - stream_.avail_out)));
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
    return OkStatus();
  }

 private:
  z_stream stream_ = {};
  bool started_ = false;
  bool ended_ = false;
  std::vector<std::byte> out_ = std::vector<std::byte>(kPieceBytes);
};

}  // namespace

Result<std::vector<ZipEntry>> ReadZipDirectory(const ZipSource& source) {
  SLUICE_ASSIGN_OR_RETURN(const End end, FindEnd(source));
  std::vector<std::byte> directory(end.bytes);
  SLUICE_RETURN_IF_ERROR(source.read(end.offset, directory));
  std::vector<ZipEntry> entries;
  size_t at = 0;
  for (uint32_t i = 0; i < end.entries; ++i) {
    if (directory.size() - at < kEntryBytes || Number(directory, at, 4) != kEntrySignature) {
      return Wrong(StrCat("has ", i, " files in its directory and says ", end.entries));
    }
    const size_t name_bytes = Number(directory, at + 28, 2);
    const size_t all_bytes =
        kEntryBytes + name_bytes + Number(directory, at + 30, 2) + Number(directory, at + 32, 2);
    if (directory.size() - at < all_bytes) return Wrong("has a directory that breaks off");
    ZipEntry& entry = entries.emplace_back();
    entry.encrypted = (Number(directory, at + 8, 2) & 1) != 0;
    entry.method = static_cast<uint16_t>(Number(directory, at + 10, 2));
    entry.crc = Number(directory, at + 16, 4);
    entry.packed_bytes = Number(directory, at + 20, 4);
    entry.bytes = Number(directory, at + 24, 4);
    entry.header = Number(directory, at + 42, 4);
    entry.name.assign(reinterpret_cast<const char*>(directory.data()) + at + kEntryBytes,
                      name_bytes);
    at += all_bytes;
  }
  return entries;
}

Status ExtractZipEntry(const ZipSource& source, const ZipEntry& entry,
                       const std::function<Status(std::span<const std::byte>)>& sink) {
  constexpr uint16_t kStored = 0, kDeflated = 8;
  const std::string name = Quote(entry.name);
  if (entry.encrypted || (entry.method != kStored && entry.method != kDeflated)) {
    return Wrong(StrCat("holds ", name, " encrypted or packed by the method ", entry.method,
                        ", which is not supported"));
  }
  std::vector<std::byte> local(kLocalBytes);
  if (entry.header + kLocalBytes > source.size) return Wrong(StrCat("has no bytes of ", name));
  SLUICE_RETURN_IF_ERROR(source.read(entry.header, local));
  const uint64_t begin = entry.header + kLocalBytes + Number(local, 26, 2) + Number(local, 28, 2);
  if (Number(local, 0, 4) != kLocalSignature || begin + entry.packed_bytes > source.size) {
    return Wrong(StrCat("has no bytes of ", name, " where its directory says"));
  }
  uint64_t done = 0;
  uLong crc = crc32(0, nullptr, 0);
  const auto take = [&](std::span<const std::byte> bytes) -> Status {
    done += bytes.size();
    if (done > entry.bytes) return Wrong(StrCat("has more of ", name, " than its directory says"));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    return bytes.empty() ? OkStatus() : sink(bytes);
  };
  Inflater inflater;
  std::vector<std::byte> piece(kPieceBytes);
  for (uint64_t at = 0; at < entry.packed_bytes;) {
    const auto part =
        std::span(piece).first(std::min<uint64_t>(piece.size(), entry.packed_bytes - at));
    SLUICE_RETURN_IF_ERROR(source.read(begin + at, part));
    SLUICE_RETURN_IF_ERROR(entry.method == kStored ? take(part) : inflater.Add(part, take));
    at += part.size();
  }
  if (done == entry.bytes && crc == entry.crc) return OkStatus();
  return Wrong(StrCat("has ", done, " bytes of ", name, " instead of ", entry.bytes,
                      ", or others than were packed"));
}

}  // namespace sluice::fetch
