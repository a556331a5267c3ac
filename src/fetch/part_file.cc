#include "fetch/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/check.h"
#include "base/json.h"
#include "base/regular_file.h"
#include "base/str_cat.h"
#include "fetch/json_text.h"

namespace sluice::fetch {
namespace {

constexpr size_t kNoteBytesMax = 8u << 10;

}  // namespace

Status PartFile::Failed(std::string_view what, int error) const {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return {StatusCode::kIo,
          StrCat(NameOf(path_), " cannot be ", what, ": ", std::generic_category().message(error),
                 full ? "; free some room and give the same command to go on" : "")};
}

Status PartFile::Open() {
  CHECK(fd_ < 0, path_);
  const std::string name = NameOf(path_);
  fd_ = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd_ < 0) return FileError(name, "cannot be written", errno);
  struct stat info = {};
  if (fstat(fd_, &info) != 0) return FileError(name, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) {
    return {StatusCode::kIo, StrCat(name, " is not a regular file; remove it")};
  }
  size_ = static_cast<uint64_t>(info.st_size);
  return OkStatus();
}

PartFile::~PartFile() {
  if (fd_ >= 0) close(fd_);
}

PartNote PartFile::ReadNote() const {
  const auto text = ReadRegularFile(NoteName(), kNoteBytesMax);
  if (!text.ok()) return {};
  const auto json = ParseJson(*text, NoteName());
  if (!json.ok() || !json->is_object()) return {};
  return {TextOf(*json, "checksum"), TextOf(*json, "etag")};
}

Status PartFile::WriteNote(const PartNote& note) {
  const std::string text = DumpJson(Json{{"checksum", note.checksum}, {"etag", note.etag}}) + "\n";
  // A note that breaks off is no JSON, and so none.
  const int fd =
      open(NoteName().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return FileError(NoteName(), "cannot be written", errno);
  const ssize_t done = write(fd, text.data(), text.size());
  const int error = done < 0 ? errno : ENOSPC;
  close(fd);
  if (done == static_cast<ssize_t>(text.size())) return OkStatus();
  return FileError(NoteName(), "cannot be written", error);
}

Status PartFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return Failed("written", errno);
    size_ += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return OkStatus();
}

Status PartFile::Empty() {
  if (ftruncate(fd_, 0) != 0) return Failed("emptied", errno);
  size_ = 0;
  return OkStatus();
}

Status PartFile::Finish() {
  if (fsync(fd_) != 0) return Failed("written", errno);
  if (rename(NameOf(path_).c_str(), path_.c_str()) != 0) return Failed("given its name", errno);
  unlink(NoteName().c_str());
  return OkStatus();
}

void PartFile::Remove() {
  close(std::exchange(fd_, -1));
  unlink(NameOf(path_).c_str());
  unlink(NoteName().c_str());
}

}  // namespace sluice::fetch
