#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/str_cat.h"

namespace sluice {

Status FileError(const std::string& path, std::string_view call, int error) {
  const StatusCode code =
      error == ENOENT || error == ENOTDIR ? StatusCode::kNotFound : StatusCode::kIo;
  return {code, StrCat(path, ": ", call, ": ", std::generic_category().message(error))};
}

Result<RegularFile> RegularFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not hang.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(path, "cannot be opened", errno);
  RegularFile file(fd, 0);
  struct stat info = {};
  if (fstat(fd, &info) != 0) return FileError(path, "cannot be examined", errno);
  // This test comes first and alone: GCC 12 with sanitizers lost the second of two in a row.
  if (S_ISREG(info.st_mode)) {
    file.size_ = static_cast<size_t>(info.st_size);
    return file;
  }
  const bool folder = S_ISDIR(info.st_mode);
  return InvalidArgument(
      StrCat(path, folder ? " is a folder; a file is needed here" : " is not a regular file"));
}

RegularFile::RegularFile(RegularFile&& other) noexcept : fd_(other.Take()), size_(other.size_) {}

RegularFile::~RegularFile() {
  if (fd_ >= 0) close(fd_);
}

int RegularFile::Take() { return std::exchange(fd_, -1); }

Result<std::string> ReadRegularFile(const std::string& path, size_t bytes_max) {
  SLUICE_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  if (file.size() > bytes_max) {
    return Status(StatusCode::kTooLarge,
                  StrCat(path, " has ", file.size(), " bytes; the limit is ", bytes_max));
  }
  std::string text(file.size(), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = read(file.fd(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, "cannot be read", errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace sluice
