// Keeps other processes from fetching into the same folder. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sluice/status.h"

namespace sluice::fetch {

class FolderLock {
 public:
  // Makes the folder where it is missing, and waits while another process holds its lock, which
  // ends with that process at the latest. `on_wait` is called once if there is something to wait
  // for. kCancelled: `stopped` said so. kIo: the folder cannot be made or written.
  static Result<std::unique_ptr<FolderLock>> Take(const std::string& folder,
                                                  const std::function<void()>& on_wait,
                                                  const std::function<bool()>& stopped);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace sluice::fetch
