// Compiled programs on disk, one file each, so that a second start compiles nothing. A file names
// all that it was made of, and is used only where that is what is asked for. Any thread may call;
// processes may share the folder.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice::xpu {

class BinaryCache {
 public:
  // An empty folder: nothing is kept.
  explicit BinaryCache(std::string folder) : folder_(std::move(folder)) {}

  // $SLUICE_CACHE/xpu, else $XDG_CACHE_HOME/sluice/xpu, else ~/.cache/sluice/xpu; else empty.
  static std::string DefaultFolder();
  const std::string& folder() const { return folder_; }

  // `key`: device, driver, options and source. Nothing where no whole file of that key is there.
  std::optional<std::vector<unsigned char>> Load(const std::string& key) const;
  // Says once, to the log, when the folder cannot be written.
  void Store(const std::string& key, const std::vector<unsigned char>& binary);
  // What a build printed, for people; the file's path, or empty where it could not be written.
  std::string StoreLog(const std::string& key, const std::string& text);

 private:
  std::string PathOf(const std::string& key, const char* extension) const;
  // Why the file could not be written; empty when it was.
  std::string Write(const std::string& path, const std::string& head, const void* data,
                    size_t bytes);

  const std::string folder_;
  std::mutex mutex_;
  bool told_ = false;  // guarded by mutex_
};

}  // namespace sluice::xpu
