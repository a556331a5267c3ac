#include "files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/str_cat.h"

namespace sluice::files {
namespace {

// How often another hidden name is tried when one is taken.
constexpr int kNameTriesMax = 100;

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Not taken from `path`, whose length may be the longest that a name can have.
std::string HiddenName(const std::string& folder) {
  static std::atomic<int> count = 0;
  return StrCat(folder, "/.sluice-", getpid(), "-", count.fetch_add(1), ".part");
}

Status NothingThere(const std::string& path) {
  return InvalidArgument(
      StrCat(path, " exists; give --force to replace it, or choose another name"));
}

}  // namespace

Status AtomicFile::Failed(std::string_view what, int error) const {
  std::string remedy;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    remedy = "; nothing was left behind: free some room or choose another folder";
    if (reserved_ > 0) remedy = StrCat(" (it needs ", (reserved_ >> 20) + 1, " MiB)", remedy);
  }
  return {StatusCode::kIo,
          StrCat(path_, " ", what, ": ", std::generic_category().message(error), remedy)};
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path, Options options) {
  struct stat info = {};
  const bool replaces = stat(path.c_str(), &info) == 0;
  if (replaces) {
    if (!S_ISREG(info.st_mode)) {
      return InvalidArgument(StrCat(path, " is not a regular file; choose another name"));
    }
    if (!options.replace) return NothingThere(path);
  } else if (lstat(path.c_str(), &info) == 0) {
    return InvalidArgument(StrCat(path, " is a link to nothing; choose another name"));
  } else if (path.empty() || errno != ENOENT) {
    return InvalidArgument(StrCat("\"", path, "\" cannot be written: ",
                                  std::generic_category().message(errno), "; choose another name"));
  }
  const std::string folder = FolderOf(path);
  constexpr int kFlags = O_WRONLY | O_CLOEXEC;
  std::string hidden;
  int fd = options.hidden_name ? -1 : open(folder.c_str(), kFlags | O_TMPFILE, 0666);
  for (int i = 0; fd < 0 && i < kNameTriesMax; ++i) {
    hidden = HiddenName(folder);
    fd = open(hidden.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  if (fd < 0) {
    return Status(StatusCode::kIo,
                  StrCat(path, " cannot be created: ", std::generic_category().message(errno)));
  }
  // Who may read the old one may read the new one, and nobody else; where that cannot be set, as on
  // a file system without modes, there is no remedy.
  if (replaces) (void)!fchmod(fd, info.st_mode & 0777);
  return std::unique_ptr<AtomicFile>(new AtomicFile(path, options.replace, fd, std::move(hidden)));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!hidden_.empty()) unlink(hidden_.c_str());
}

Status AtomicFile::Reserve(uint64_t bytes) {
  reserved_ = bytes;
  int failed = 0;
  do {
    failed = fallocate(fd_, 0, 0, static_cast<off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed == 0 || (errno != ENOSPC && errno != EDQUOT && errno != EFBIG)) return OkStatus();
  return Failed("cannot be written", errno);
}

Status AtomicFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return Failed("cannot be written", errno);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return OkStatus();
}

Status AtomicFile::GiveName() {
  if (hidden_.empty()) {
    const std::string self = StrCat("/proc/self/fd/", fd_);
    // A link never replaces, a renaming may.
    std::string name = replace_ ? HiddenName(FolderOf(path_)) : path_;
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return errno == EEXIST && !replace_ ? NothingThere(path_) : Failed("cannot be named", errno);
    }
    if (!replace_) return OkStatus();
    hidden_ = std::move(name);
  }
  const unsigned flags = replace_ ? 0 : RENAME_NOREPLACE;
  int failed = renameat2(AT_FDCWD, hidden_.c_str(), AT_FDCWD, path_.c_str(), flags);
  if (failed != 0 && (errno == EINVAL || errno == ENOSYS)) {
    failed = rename(hidden_.c_str(), path_.c_str());
  }
  if (failed != 0) {
    return errno == EEXIST && !replace_ ? NothingThere(path_) : Failed("cannot be named", errno);
  }
  hidden_.clear();
  return OkStatus();
}

Status AtomicFile::Commit() {
  if (fsync(fd_) != 0) return Failed("cannot be written", errno);
  SLUICE_RETURN_IF_ERROR(GiveName());
  close(std::exchange(fd_, -1));
  // The name too should outlive a power cut; where a folder cannot be synced, there is no remedy.
  const int folder = open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
  return OkStatus();
}

}  // namespace sluice::files
