#include "files/repeated_block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::files {
namespace {

Status Failed(std::string_view what, size_t bytes) {
  return Status(StatusCode::kIo,
                StrCat(what, " for ", bytes, " bytes failed: ", std::strerror(errno)));
}

// A file without a name that holds `period`; the caller closes it.
Result<int> FileOf(std::span<const std::byte> period) {
  const int file = memfd_create("sluice", MFD_CLOEXEC);
  if (file < 0) return Failed("memfd_create", period.size());
  size_t written = 0;
  while (written < period.size()) {
    const ssize_t count = write(file, period.data() + written, period.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const Status failed = Failed("writing memory", period.size());
      close(file);
      return failed;
    }
    written += static_cast<size_t>(count);
  }
  return file;
}

}  // namespace

Result<std::unique_ptr<RepeatedBlock>> RepeatedBlock::Make(std::span<const std::byte> period,
                                                           size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  CHECK(!period.empty() && period.size() % page == 0, period.size(), " bytes, pages of ", page);
  const size_t size = (bytes + period.size() - 1) / period.size() * period.size();
  SLUICE_ASSIGN_OR_RETURN(const int file, FileOf(period));
  // The range is taken as a whole, then filled piece by piece.
  void* const range =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Status status = range == MAP_FAILED ? Failed("mmap", size) : OkStatus();
  if (status.ok()) {
    auto* const data = static_cast<std::byte*>(range);
    for (size_t at = 0; at < size && status.ok(); at += period.size()) {
      if (mmap(data + at, period.size(), PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) ==
          MAP_FAILED) {
        status = Failed("mmap", size);
      }
    }
    if (!status.ok()) munmap(range, size);
  }
  close(file);
  if (!status.ok()) return status;
  return std::unique_ptr<RepeatedBlock>(new RepeatedBlock(static_cast<std::byte*>(range), size));
}

RepeatedBlock::~RepeatedBlock() { munmap(data_, size_); }

}  // namespace sluice::files
