#include "engine/trace_file.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::engine {
namespace {

constexpr std::string_view kEnd = "\n]\n";

// Opens what this program has written to the path at its end, without the bracket there; null: it
// is not there as it was left.
std::FILE* Reopen(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "r+be");
  if (file == nullptr) return nullptr;
  const long back = -static_cast<long>(kEnd.size());
  std::array<char, kEnd.size()> last;
  if (std::fseek(file, back, SEEK_END) == 0 &&
      std::fread(last.data(), 1, last.size(), file) == last.size() &&
      std::string_view(last.data(), last.size()) == kEnd && std::fseek(file, back, SEEK_END) == 0) {
    return file;
  }
  std::fclose(file);
  return nullptr;
}

}  // namespace

TraceFile& TraceFile::At(const std::string& path) {
  static std::mutex mutex;
  // Not freed: an engine may end behind all other things of the program.
  static auto* const files = new std::map<std::string, std::unique_ptr<TraceFile>>;
  std::error_code ignored;
  std::string name = std::filesystem::weakly_canonical(path, ignored).string();
  if (name.empty()) name = path;
  std::lock_guard lock(mutex);
  std::unique_ptr<TraceFile>& file = (*files)[name];
  if (file == nullptr) file.reset(new TraceFile(name));
  return *file;
}

std::unique_ptr<TraceFile> TraceFile::InMemory() {
  return std::unique_ptr<TraceFile>(new TraceFile(""));
}

TraceFile::~TraceFile() {
  CHECK(taking_part_ == 0, "a trace's file ends before ", taking_part_, " that write it");
  std::free(bytes_);
}

Status TraceFile::Open(bool goes_on) {
  if (path_.empty()) {
    file_ = open_memstream(&bytes_, &size_);
    CHECK(file_ != nullptr, "open_memstream fails where memory has run out alone");
    return OkStatus();
  }
  if (goes_on && processes_ > 0) file_ = Reopen(path_);
  if (file_ != nullptr) return OkStatus();
  processes_ = 0;
  written_ = 0;
  full_ = false;
  file_ = std::fopen(path_.c_str(), "wbe");
  if (file_ != nullptr) return OkStatus();
  return Status(StatusCode::kIo,
                StrCat("the trace cannot be written to ", Quote(path_), " (", std::strerror(errno),
                       "); name another file with --trace"),
                "trace");
}

Result<int> TraceFile::Join(std::string_view process, bool goes_on, int64_t bytes_max) {
  std::lock_guard lock(mutex_);
  if (taking_part_ == 0) {
    bytes_max_ = bytes_max;
    SLUICE_RETURN_IF_ERROR(Open(goes_on));
  }
  ++taking_part_;
  const int number = ++processes_;
  const OrderedJson head = {{"name", "process_name"},
                            {"ph", "M"},
                            {"pid", number},
                            {"args", {{"name", std::string(process)}}}};
  Write(StrCat(number == 1 ? "[" : ",\n", DumpJson(head)));
  return number;
}

void TraceFile::Leave() {
  std::lock_guard lock(mutex_);
  if (--taking_part_ > 0) return;
  std::fputs(kEnd.data(), file_);
  std::fclose(file_);
  file_ = nullptr;
}

void TraceFile::Add(std::string_view event) {
  std::lock_guard lock(mutex_);
  Write(StrCat(",\n", event));
}

void TraceFile::Flush() {
  std::lock_guard lock(mutex_);
  std::fflush(file_);
}

void TraceFile::Write(std::string_view text) {
  if (full_) return;
  written_ += static_cast<int64_t>(text.size());
  full_ = written_ > bytes_max_ || std::fwrite(text.data(), 1, text.size(), file_) != text.size();
  if (full_) LogWarning("the trace ends here: its file has reached its limit, or its disk is full");
}

}  // namespace sluice::engine
