#include "backend/xpu/programs/binary_cache.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

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

}  // namespace

std::string BinaryCache::DefaultFolder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string cache = variable("SLUICE_CACHE"); !cache.empty()) return cache + "/xpu";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/sluice/xpu";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/sluice/xpu";
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
  std::string all(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(all.data(), static_cast<std::streamsize>(size))) return std::nullopt;
  // The head is written for the bytes that follow it, so a file that was cut or changed differs.
  const size_t key_at = all.find(key, kMagic.size());
  if (key_at == std::string::npos) return std::nullopt;
  const size_t begin = key_at + key.size();
  const std::string head = Head(key, all.data() + begin, all.size() - begin);
  if (all.compare(0, begin, head) != 0) return std::nullopt;
  return std::vector<unsigned char>(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
}

bool BinaryCache::Write(const std::string& path, const std::string& head, const void* data,
                        size_t bytes) {
  if (folder_.empty()) return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  // Its own name until it is whole: another process may be reading or writing the same program.
  const std::string partial = StrCat(path, ".", getpid(), ".partial");
  bool written = false;
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file.write(head.data(), static_cast<std::streamsize>(head.size()));
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    file.close();
    written = file.good();
  }
  if (written) fs::rename(partial, path, error);
  if (written && !error) return true;
  fs::remove(partial, error);
  return false;
}

void BinaryCache::Store(const std::string& key, const std::vector<unsigned char>& binary) {
  const std::lock_guard lock(mutex_);
  if (Write(PathOf(key, ".bin"), Head(key, binary.data(), binary.size()), binary.data(),
            binary.size()) ||
      told_) {
    return;
  }
  told_ = true;
  LogWarning("compiled kernels can't be kept in \"", folder_,
             "\", so every start compiles them again; set SLUICE_CACHE to a folder that can be "
             "written");
}

std::string BinaryCache::StoreLog(const std::string& key, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const std::string path = PathOf(key, ".log");
  return Write(path, "", text.data(), text.size()) ? path : "";
}

}  // namespace sluice::xpu
