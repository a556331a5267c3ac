#include "cli/text_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/str_cat.h"

namespace sluice::cli {
namespace {

Status CannotRead(const std::string& name, int error) {
  return InvalidArgument(StrCat(name, " cannot be read: ", std::generic_category().message(error),
                                "; give a text file"));
}

Result<std::string> ReadAll(int fd, const std::string& name) {
  std::string text;
  constexpr size_t kPiece = size_t{1} << 20;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + std::min(kPiece, kTextBytesMax + 1 - before));
    const ssize_t got = read(fd, text.data() + before, text.size() - before);
    const int error = errno;
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return CannotRead(name, error);
    if (got == 0) return text;
    if (text.size() > kTextBytesMax) {
      return InvalidArgument(StrCat(name, " has more than ", kTextBytesMax, " bytes, the limit"));
    }
  }
}

}  // namespace

Result<std::string> ReadText(const std::string& path) {
  if (path.empty()) return ReadAll(STDIN_FILENO, "standard input");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotRead(path, errno);
  Result<std::string> text = ReadAll(fd, path);
  close(fd);
  return text;
}

}  // namespace sluice::cli
