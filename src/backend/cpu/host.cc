#include "backend/cpu/host.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/str_cat.h"

namespace sluice::cpu {
namespace {

// The first 64 KiB of a file; empty when it can't be read.
std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  if (!in) return "";
  std::string text(65536, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

std::string FirstLine(const std::string& path) {
  const std::string text = ReadText(path);
  return text.substr(0, text.find('\n'));
}

std::optional<size_t> ParseNumber(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  text.remove_prefix(first);
  size_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop == text.data()) return std::nullopt;
  return value;
}

// The number after `key` at the start of a line ("MemTotal:   123 kB").
std::optional<size_t> Field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return ParseNumber(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

// The folders of this process's control group for `controller` ("" for version 2), innermost first.
std::vector<std::string> CgroupFolders(const std::string& root, std::string_view controller) {
  const std::string base =
      controller.empty() ? root + "/sys/fs/cgroup" : StrCat(root, "/sys/fs/cgroup/", controller);
  std::string path;
  std::istringstream lines(ReadText(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool mine = controller.empty()
                          ? names == ",,"
                          : names.find(StrCat(",", controller, ",")) != std::string::npos;
    if (mine) path = line.substr(second + 1);
  }
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back(base + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(base);
  return folders;
}

struct MemoryLimit {
  size_t limit = 0, used = 0;
};

// A limit above this is how version 1 writes "none".
constexpr size_t kNoLimit = size_t{1} << 60;

std::optional<MemoryLimit> ReadLimit(const std::string& folder, const char* limit_file,
                                     const char* used_file, std::string_view cache_key) {
  const auto limit = ParseNumber(FirstLine(folder + limit_file));
  if (!limit.has_value() || *limit >= kNoLimit) return std::nullopt;
  const size_t used = ParseNumber(FirstLine(folder + used_file)).value_or(0);
  const size_t cache = Field(ReadText(folder + "/memory.stat"), cache_key).value_or(0);
  return MemoryLimit{*limit, used - std::min(used, cache)};
}

}  // namespace

int AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

device::MemoryInfo HostMemory(const std::string& root) {
  const std::string text = ReadText(root + "/proc/meminfo");
  device::MemoryInfo info;
  info.total_bytes = Field(text, "MemTotal:").value_or(0) * 1024;
  info.free_bytes = Field(text, "MemAvailable:").value_or(0) * 1024;
  std::vector<MemoryLimit> limits;
  for (const std::string& folder : CgroupFolders(root, "")) {
    if (auto limit = ReadLimit(folder, "/memory.max", "/memory.current", "inactive_file "))
      limits.push_back(*limit);
  }
  for (const std::string& folder : CgroupFolders(root, "memory")) {
    if (auto limit = ReadLimit(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                               "total_inactive_file "))
      limits.push_back(*limit);
  }
  for (const MemoryLimit& limit : limits) {
    info.total_bytes = std::min(info.total_bytes, limit.limit);
    info.free_bytes = std::min(info.free_bytes, limit.limit - std::min(limit.limit, limit.used));
  }
  return info;
}

}  // namespace sluice::cpu
