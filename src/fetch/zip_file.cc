#include "fetch/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::fetch {
namespace {

constexpr size_t kReadBytes = 256u << 10;

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
    if (ended_) return files::WrongZip("has bytes behind the end of a file's data");
    stream_.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream_.avail_in = static_cast<uInt>(packed.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      ended_ = code == Z_STREAM_END;
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return files::WrongZip("has data that is not deflated");
      }
      SLUICE_RETURN_IF_ERROR(sink(std::span(out_).first(out_.size() - stream_.avail_out)));
    } while (!ended_ && (stream_.avail_in > 0 || stream_.avail_out == 0));
    if (stream_.avail_in == 0) return OkStatus();
    return files::WrongZip("has bytes behind the end of a file's data");
  }

 private:
  z_stream stream_ = {};
  bool started_ = false;
  bool ended_ = false;
  std::vector<std::byte> out_ = std::vector<std::byte>(kReadBytes);
};

}  // namespace

Status ExtractZipEntry(const files::ZipSource& source, const files::ZipEntry& entry,
                       const std::function<Status(std::span<const std::byte>)>& sink) {
  constexpr uint16_t kStored = 0, kDeflated = 8;
  const std::string name = Quote(entry.name);
  if (entry.encrypted || (entry.method != kStored && entry.method != kDeflated)) {
    return files::WrongZip(StrCat("holds ", name, " encrypted or packed by the method ",
                                  entry.method, ", which is not supported"));
  }
  SLUICE_ASSIGN_OR_RETURN(const uint64_t begin, ZipDataOffset(source, entry));
  uint64_t done = 0;
  uLong crc = crc32(0, nullptr, 0);
  const auto take = [&](std::span<const std::byte> bytes) -> Status {
    done += bytes.size();
    if (done > entry.bytes)
      return files::WrongZip(StrCat("has more of ", name, " than its directory says"));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    return bytes.empty() ? OkStatus() : sink(bytes);
  };
  Inflater inflater;
  std::vector<std::byte> piece(kReadBytes);
  for (uint64_t at = 0; at < entry.packed_bytes;) {
    const auto part =
        std::span(piece).first(std::min<uint64_t>(piece.size(), entry.packed_bytes - at));
    SLUICE_RETURN_IF_ERROR(source.read(begin + at, part));
    SLUICE_RETURN_IF_ERROR(entry.method == kStored ? take(part) : inflater.Add(part, take));
    at += part.size();
  }
  if (done == entry.bytes && crc == entry.crc) return OkStatus();
  return files::WrongZip(StrCat("has ", done, " bytes of ", name, " instead of ", entry.bytes,
                                ", or others than were packed"));
}

}  // namespace sluice::fetch
