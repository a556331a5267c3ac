// Keeps other processes from fetching into the same folder. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
  // Removes the lock's file, and the folders that Take made, where nothing else is in them.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock(int fd, std::string folder, std::vector<std::string> made)
      : fd_(fd), folder_(std::move(folder)), made_(std::move(made)) {}
  void RemoveIfAlone() const;

  const int fd_;
  const std::string folder_;
  const std::vector<std::string> made_;  // by Take, the innermost first
  bool held_ = false;
};

}  // namespace sluice::fetch
