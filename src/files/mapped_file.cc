#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/str_cat.h"

namespace sluice::files {
namespace {

Status SystemError(const std::string& path, std::string_view what, int error) {
  const StatusCode code =
      error == ENOENT || error == ENOTDIR ? StatusCode::kNotFound : StatusCode::kIo;
  return {code, StrCat(path, ": ", what, ": ", std::generic_category().message(error))};
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// The size of the regular file behind `fd`.
Result<size_t> RegularFileSize(const std::string& path, int fd) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return SystemError(path, "cannot be examined", errno);
  if (S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kIo, StrCat(path, " is a folder; a file is needed here"));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::kIo, StrCat(path, " is not a regular file"));
  }
  return static_cast<size_t>(info.st_size);
}

// O_NONBLOCK: opening a pipe that nobody writes to must not hang.
int OpenForReading(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const Descriptor file(OpenForReading(path));
  if (file.fd() < 0) return SystemError(path, "cannot be opened", errno);
  SLUICE_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(path, file.fd()));
  if (size == 0) return BadModel(StrCat(path, " is empty"));
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (address == MAP_FAILED) return SystemError(path, "cannot be mapped", errno);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(std::span(static_cast<const std::byte*>(address), size)));
}

MappedFile::~MappedFile() { munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

void MappedFile::Release(std::span<const std::byte> range) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
  // Advice only: when the system declines, memory is merely freed later.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> ReadTextFile(const std::string& path, size_t bytes_max) {
  const Descriptor file(OpenForReading(path));
  if (file.fd() < 0) return SystemError(path, "cannot be opened", errno);
  SLUICE_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(path, file.fd()));
  if (size > bytes_max) {
    return BadModel(StrCat(path, " has ", size, " bytes; the limit is ", bytes_max));
  }
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = read(file.fd(), text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path, "cannot be read", errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace sluice::files
