#include "cli/editor/history.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/environment.h"
#include "base/json.h"
#include "base/regular_file.h"

namespace sluice::cli {
namespace {

constexpr size_t kTextsMax = 1000;
constexpr size_t kFileBytesMax = size_t{4} << 20;
constexpr size_t kTextBytesMax = size_t{64} << 10;

// The texts of a file with lines of JSON.
std::vector<std::string> ReadTexts(const std::string& path) {
  std::vector<std::string> texts;
  const auto content = ReadRegularFile(path, kFileBytesMax);
  if (!content.ok()) return texts;
  std::istringstream lines(*content);
  for (std::string line; std::getline(lines, line);) {
    const auto text = ParseJson(line, "a line of the history");
    if (text.ok() && text->is_string()) texts.push_back(text->get<std::string>());
  }
  if (texts.size() > kTextsMax) {
    texts.erase(texts.begin(), texts.end() - static_cast<std::ptrdiff_t>(kTextsMax));
  }
  return texts;
}

void Append(const std::string& path, const std::string& line, int flags) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
  close(fd);
}

}  // namespace

History::History(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  texts_ = ReadTexts(path_);
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path_, error);
  if (error || bytes < kFileBytesMax / 2) return;
  std::string kept;
  for (const std::string& text : texts_) kept += DumpJson(Json(text)) + "\n";
  Append(path_, kept, O_TRUNC);
}

void History::Add(const std::string& text) {
  if (!texts_.empty() && texts_.back() == text) return;
  texts_.push_back(text);
  if (path_.empty() || text.size() > kTextBytesMax) return;
  Append(path_, DumpJson(Json(text)) + "\n", O_APPEND);
}

std::string HistoryPath() {
  const std::string state = Environment("XDG_STATE_HOME"), home = Environment("HOME");
  if (!state.empty()) return state + "/sluice/chat_history";
  return home.empty() ? "" : home + "/.local/state/sluice/chat_history";
}

}  // namespace sluice::cli
