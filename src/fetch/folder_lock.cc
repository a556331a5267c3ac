#include "fetch/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/regular_file.h"
#include "base/str_cat.h"

namespace sluice::fetch {
namespace {

constexpr char kName[] = ".fetch.lock";
constexpr auto kLockPoll = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder,
                                                     const std::function<void()>& on_wait,
                                                     const std::function<bool()>& stopped) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Status(StatusCode::kIo, StrCat(folder, " cannot be made: ", error.message(),
                                          "; set SLUICE_CACHE to a folder that can"));
  }
  const std::string path = StrCat(folder, "/", kName);
  // It stays when it is free: removing it would let a third process lock a new one beside a second
  // that has the old one.
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) {
    return Status(StatusCode::kIo, FileError(path, "cannot be written", errno).message());
  }
  std::unique_ptr<FolderLock> lock(new FolderLock(fd));
  for (bool told = false; flock(fd, LOCK_EX | LOCK_NB) != 0; told = true) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FileError(path, "cannot be locked", errno);
    if (!told && on_wait) on_wait();
    if (stopped && stopped()) return Status(StatusCode::kCancelled, "stopped by the user");
    std::this_thread::sleep_for(kLockPoll);
  }
  return lock;
}

FolderLock::~FolderLock() { close(fd_); }

}  // namespace sluice::fetch
