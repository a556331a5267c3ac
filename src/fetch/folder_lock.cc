#include "fetch/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/regular_file.h"
#include "base/str_cat.h"

namespace sluice::fetch {
namespace {

constexpr char kName[] = ".fetch.lock";
constexpr auto kLockPoll = std::chrono::milliseconds(100);

namespace fs = std::filesystem;

// The folders of `folder`, itself among them, that are not there, the innermost first.
std::vector<std::string> Missing(const std::string& folder) {
  std::vector<std::string> missing;
  std::error_code error;
  fs::path path(folder);
  for (; !path.empty() && !fs::exists(path, error); path = path.parent_path()) {
    missing.push_back(path.string());
  }
  return missing;
}

// Whether the file that is open as `fd` is the one that `path` names still.
bool IsAt(int fd, const std::string& path) {
  struct stat opened = {}, named = {};
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

Result<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder,
                                                     const std::function<void()>& on_wait,
                                                     const std::function<bool()>& stopped) {
  const std::string path = StrCat(folder, "/", kName);
  for (bool told = false;;) {
    std::vector<std::string> made = Missing(folder);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      return Status(StatusCode::kIo, StrCat(folder, " cannot be made: ", error.message(),
                                            "; set SLUICE_CACHE to a folder that can"));
    }
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 && errno != ENOENT) {
      return Status(StatusCode::kIo, FileError(path, "cannot be written", errno).message());
    }
    if (fd < 0) {  // another process has removed the folder meanwhile
      if (stopped && stopped()) return Status(StatusCode::kCancelled, "stopped by the user");
      continue;
    }
    std::unique_ptr<FolderLock> lock(new FolderLock(fd, folder, std::move(made)));
    for (; flock(fd, LOCK_EX | LOCK_NB) != 0; told = true) {
      if (errno != EWOULDBLOCK && errno != EINTR) return FileError(path, "cannot be locked", errno);
      if (!told && on_wait) on_wait();
      if (stopped && stopped()) return Status(StatusCode::kCancelled, "stopped by the user");
      std::this_thread::sleep_for(kLockPoll);
    }
    // Who had it before may have removed it; then others lock a new one.
    if (!IsAt(fd, path)) continue;
    lock->held_ = true;
    return lock;
  }
}

FolderLock::~FolderLock() {
  if (held_) RemoveIfAlone();
  close(fd_);
}

void FolderLock::RemoveIfAlone() const {
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() != kName) return;
  }
  if (error) return;
  unlink(StrCat(folder_, "/", kName).c_str());
  for (const std::string& folder : made_) {
    if (rmdir(folder.c_str()) != 0) return;  // another process has put something there
  }
}

}  // namespace sluice::fetch
