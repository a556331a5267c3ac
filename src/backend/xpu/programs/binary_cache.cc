#include "backend/xpu/programs/binary_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/environment.h"
#include "base/hash128.h"
#include "base/log.h"

namespace sluice::xpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "SLUICE XPU 1\n";
constexpr uintmax_t kFileBytesMax = uintmax_t{256} << 20;

Hash128 HashOf(std::string_view text) {
  return HashBytes(std::as_bytes(std::span(text.data(), text.size())), {});
}

std::string Head(const std::string& key, const void* data, size_t bytes) {
  const Hash128 hash = HashOf({static_cast<const char*>(data), bytes});
  return StrCat(kMagic, key.size(), " ", bytes, " ", hash.high, " ", hash.low, "\n", key);
}

// The first line of Head.
constexpr size_t kNumbersBytesMax = 4 * 21;

// The head of a file of `size` bytes that may hold `key`; the file stands behind it. Nothing where
// its sizes are another's, and then no more than that much was read.
std::optional<std::string> ReadHead(std::ifstream& file, const std::string& key, uintmax_t size) {
  std::string head(std::min<uintmax_t>(size, kMagic.size() + kNumbersBytesMax), '\0');
  if (!file.read(head.data(), static_cast<std::streamsize>(head.size()))) return std::nullopt;
  const size_t line_end = head.find('\n', kMagic.size());
  if (!head.starts_with(kMagic) || line_end == std::string::npos) return std::nullopt;
  const uintmax_t bytes = line_end + 1 + key.size();
  if (bytes > size) return std::nullopt;
  if (!head.starts_with(StrCat(kMagic, key.size(), " ", size - bytes, " "))) return std::nullopt;
  head.resize(bytes);
  file.seekg(0);
  if (!file.read(head.data(), static_cast<std::streamsize>(bytes))) return std::nullopt;
  return head;
}

}  // namespace

std::string BinaryCache::DefaultFolder() {
  if (const std::string cache = Environment("SLUICE_CACHE"); !cache.empty()) return cache + "/xpu";
  if (const std::string cache = Environment("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/sluice/xpu";
  if (const std::string home = Environment("HOME"); !home.empty())
    return home + "/.cache/sluice/xpu";
  return "";
}

std::string BinaryCache::PathOf(const std::string& key, const char* extension) const {
  const Hash128 hash = HashOf(key);
  char name[48];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return StrCat(folder_, "/", name, extension);
}

std::optional<std::vector<unsigned char>> BinaryCache::Load(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = PathOf(key, ".bin");
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > kFileBytesMax) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  const std::optional<std::string> head = ReadHead(file, key, size);
  if (!head) return std::nullopt;
  std::vector<unsigned char> binary(size - head->size());
  if (!file.read(reinterpret_cast<char*>(binary.data()),
                 static_cast<std::streamsize>(binary.size()))) {
    return std::nullopt;
  }
  // The head is written for the bytes that follow it, so a file that was changed differs.
  if (*head != Head(key, binary.data(), binary.size())) return std::nullopt;
  return binary;
}

std::string BinaryCache::Write(const std::string& path, const std::string& head, const void* data,
                               size_t bytes) {
  if (folder_.empty()) return "no folder";
  std::error_code error;
  fs::create_directories(folder_, error);
  // Its own name until it is whole: another process may be reading or writing the same program.
  const std::string partial = StrCat(path, ".", getpid(), ".partial");
  errno = 0;
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file.write(head.data(), static_cast<std::streamsize>(head.size()));
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    file.close();
    error = file.good() ? std::error_code() : std::error_code(errno, std::generic_category());
    if (!file.good() && !error) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(partial, path, error);
  if (!error) return "";
  std::error_code unused;
  fs::remove(partial, unused);
  return error.message();
}

void BinaryCache::Store(const std::string& key, const std::vector<unsigned char>& binary) {
  const std::lock_guard lock(mutex_);
  const std::string why = Write(PathOf(key, ".bin"), Head(key, binary.data(), binary.size()),
                                binary.data(), binary.size());
  if (why.empty() || told_) return;
  told_ = true;
  if (folder_.empty()) {
    LogWarning(
        "no cache folder: neither SLUICE_CACHE, XDG_CACHE_HOME nor HOME is set, so every start "
        "compiles the kernels again");
    return;
  }
  LogWarning(
      "compiled kernels can't be kept in \"", folder_, "\" (", why,
      "), so every start compiles them again; make room there or set SLUICE_CACHE to a folder "
      "that can be written");
}

std::string BinaryCache::StoreLog(const std::string& key, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const std::string path = PathOf(key, ".log");
  return Write(path, "", text.data(), text.size()).empty() ? path : "";
}

}  // namespace sluice::xpu
