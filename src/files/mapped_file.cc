#include "files/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/regular_file.h"
#include "base/str_cat.h"

namespace sluice::files {
namespace {

// Files of a model: what the path names is wrong, not what the system did.
Status AsModelError(const Status& status) {
  const bool unfit =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kTooLarge;
  return unfit ? BadModel(status.message()) : status;
}

uintptr_t PageBytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  auto opened = RegularFile::Open(path);
  if (!opened.ok()) return AsModelError(opened.status());
  RegularFile file = std::move(opened).value();
  if (file.size() == 0) return BadModel(StrCat(path, " is empty"));
  void* address = mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.fd(), 0);
  if (address == MAP_FAILED) return FileError(path, "cannot be mapped", errno);
  const std::span bytes(static_cast<const std::byte*>(address), file.size());
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes, file.Take()));
}

MappedFile::~MappedFile() {
  range_.reset();
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
  auto told = std::make_shared<MappedRange>(address, size, path_);
  return {static_cast<std::byte*>(address) + (offset - begin),
          [address, size, told = std::move(told)](std::byte*) mutable {
            told.reset();
            munmap(address, size);
          }};
}

Result<std::string> ReadTextFile(const std::string& path, size_t bytes_max) {
  auto text = ReadRegularFile(path, bytes_max);
  if (!text.ok()) return AsModelError(text.status());
  return text;
}

}  // namespace sluice::files
