#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

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
  int Take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
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

uintptr_t PageBytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

// O_NONBLOCK: opening a pipe that nobody writes to must not hang.
int OpenForReading(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  Descriptor file(OpenForReading(path));
  if (file.fd() < 0) return SystemError(path, "cannot be opened", errno);
  SLUICE_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(path, file.fd()));
  if (size == 0) return BadModel(StrCat(path, " is empty"));
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (address == MAP_FAILED) return SystemError(path, "cannot be mapped", errno);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(std::span(static_cast<const std::byte*>(address), size), file.Take()));
}

MappedFile::~MappedFile() {
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  close(fd_);
}

void MappedFile::Release(std::span<const std::byte> range) const {
  if (range.empty()) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(range.data()) / PageBytes() * PageBytes();
  const auto end = reinterpret_cast<uintptr_t>(range.data() + range.size());
  // Advice only: when the system declines, memory is merely freed later.
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::shared_ptr<std::byte> MappedFile::MapPrivately(std::span<const std::byte> range) const {
  const auto offset = static_cast<size_t>(range.data() - bytes_.data());
  const size_t begin = offset / PageBytes() * PageBytes();
  const size_t size = offset + range.size() - begin;
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd_,
                       static_cast<off_t>(begin));
  if (address == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(address) + (offset - begin),
          [address, size](std::byte*) { munmap(address, size); }};
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
