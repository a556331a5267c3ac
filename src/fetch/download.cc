#include "fetch/download.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/parse_bytes.h"
#include "base/regular_file.h"
#include "base/str_cat.h"
#include "fetch/hub_listing.h"
#include "fetch/part_file.h"

namespace sluice::fetch {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 1u << 20;
constexpr auto kFirstPause = std::chrono::seconds(1);
// Who asks for more has the user start again later.
constexpr auto kAskedPauseMax = std::chrono::minutes(5);
constexpr auto kPoll = std::chrono::milliseconds(50);
// A try that adds this much is one with progress.
constexpr uint64_t kProgressBytes = 1u << 20;

Status Stopped() { return {StatusCode::kCancelled, "stopped by the user"}; }

// kCancelled: the user stops.
Status Pause(std::chrono::milliseconds length, const std::function<bool()>& stopped) {
  for (auto left = length; left.count() > 0; left -= kPoll) {
    if (stopped && stopped()) return Stopped();
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(left, kPoll));
  }
  return OkStatus();
}

// When failures are worth another try.
class Retrying {
 public:
  explicit Retrying(const RetryOptions& options) : options_(options) {}

  // Ok, after a pause: try again. `progress`: what failed got further than any try before.
  Status Again(const Status& failure, bool progress) {
    if (!MayPass(failure)) return failure;
    if (progress) {
      failures_ = 0;
      pause_ = kFirstPause;
    }
    if (++failures_ > options_.retries) return failure;
    const std::chrono::seconds asked(options_.asked_pause ? options_.asked_pause() : 0);
    if (asked > kAskedPauseMax) {
      return {failure.code(), StrCat(failure.message(), " and asks to wait for ", asked.count(),
                                     " s, so nothing more is asked now")};
    }
    const auto pause = std::max<std::chrono::milliseconds>(pause_, asked);
    pause_ *= 2;
    return Pause(pause, options_.stopped);
  }

 private:
  const RetryOptions& options_;
  int failures_ = 0;
  std::chrono::milliseconds pause_ = kFirstPause;
};

// One file, over all tries.
class Fetching {
 public:
  Fetching(HttpClient& client, const Download& download, const RetryOptions& options,
           const Watcher& watcher, PartFile& part)
      : client_(client),
        download_(download),
        options_(options),
        watcher_(watcher),
        part_(part),
        size_(download.size),
        checksum_(download.checksum) {}

  Result<Checksum> Run() {
    SLUICE_RETURN_IF_ERROR(TakeBytesOfBefore());
    // Bytes of an earlier call may be the reason for a wrong checksum.
    bool old_bytes = part_.size() > 0;
    for (;;) {
      SLUICE_RETURN_IF_ERROR(FetchAll());
      SLUICE_ASSIGN_OR_RETURN(const std::string found, Check());
      if (found == checksum_.hex) break;
      part_.Remove();
      if (!std::exchange(old_bytes, false)) {
        return Status(StatusCode::kIo,
                      StrCat(Name(), " has the ", KindName(checksum_.kind), " ", found, " and not ",
                             checksum_.hex,
                             ", so it was removed; try again, and another mirror if that fails"));
      }
      SLUICE_RETURN_IF_ERROR(part_.Open());
    }
    if (download_.before_naming) SLUICE_RETURN_IF_ERROR(download_.before_naming());
    SLUICE_RETURN_IF_ERROR(part_.Finish());
    return checksum_;
  }

 private:
  // Keeps the bytes of an earlier call if they can be the beginning of this file.
  Status TakeBytesOfBefore() {
    const PartNote note = part_.ReadNote();
    etag_ = note.etag;
    const bool same = checksum_.hex.empty() ? !etag_.empty() : note.checksum == checksum_.hex;
    return same && part_.size() <= size_.value_or(kFileBytesMax) ? OkStatus() : part_.Empty();
  }

  Status FetchAll() {
    uint64_t most = part_.size();
    Retrying retrying(options_);
    for (;;) {
      const Status status = Try();
      if (status.ok()) return status;
      const bool progress = part_.size() >= most + kProgressBytes;
      most = std::max(most, part_.size());
      SLUICE_RETURN_IF_ERROR(retrying.Again(status, progress));
    }
  }

  // Asks for what is missing. Ok: every byte is there.
  Status Try() {
    if (size_ && part_.size() == *size_ && part_.size() > 0) return OkStatus();
    // Nothing could tell whether the rest belongs to what is there.
    if (checksum_.hex.empty() && etag_.empty()) SLUICE_RETURN_IF_ERROR(part_.Empty());
    HttpRequest request{.url = download_.url, .bearer = download_.bearer};
    request.first_byte = part_.size();
    if (part_.size() > 0) request.if_range = etag_;
    SLUICE_RETURN_IF_ERROR(client_.Get(
        request, [this](const HttpHead& head) { return TakeHead(head); },
        [this](std::span<const std::byte> bytes) { return Take(bytes); }));
    if (!size_ || part_.size() == *size_) return OkStatus();
    return {StatusCode::kUnavailable, StrCat(Name(), " broke off after ", part_.size(), " of ",
                                             *size_, " bytes; give the same command to go on")};
  }

  Status TakeHead(const HttpHead& head) {
    if (head.status == 416) {  // the file is shorter than the part
      SLUICE_RETURN_IF_ERROR(part_.Empty());
      return {StatusCode::kUnavailable, StrCat(Name(), " has changed on the server")};
    }
    const bool rest = head.status == 206;
    if (rest && head.range_first != part_.size()) {
      return {StatusCode::kIo, StrCat(Name(), " came from the byte ", head.range_first.value_or(0),
                                      " on, and was asked for from ", part_.size(),
                                      "; the server or a proxy before it is at fault")};
    }
    if (!rest) SLUICE_RETURN_IF_ERROR(part_.Empty());
    if (checksum_.hex.empty()) checksum_ = ChecksumOf(head.linked_etag);
    SLUICE_RETURN_IF_ERROR(TakeSize(rest ? head.range_total : head.length));
    etag_ = head.etag;
    return part_.WriteNote({checksum_.hex, etag_});
  }

  // `total`: bytes of the file, as the server says, if it does.
  Status TakeSize(std::optional<uint64_t> total) {
    if (!total) return OkStatus();
    const uint64_t wanted = size_.value_or(*total);
    if (*total != wanted || wanted > kFileBytesMax || wanted < part_.size()) {
      return {StatusCode::kIo,
              StrCat(Name(), " has ", *total, " bytes on the server, and ", wanted,
                     " were expected, at most ", kFileBytesMax, "; try later, or another mirror")};
    }
    if (size_) return OkStatus();
    size_ = wanted;
    return CheckRoom(fs::path(download_.path).parent_path().string(), wanted - part_.size());
  }

  Status Take(std::span<const std::byte> bytes) {
    const uint64_t most = size_.value_or(kFileBytesMax);
    if (bytes.size() > most - part_.size()) {
      return {StatusCode::kIo,
              StrCat(Name(), " goes on behind its ", most, " bytes; the server is at fault")};
    }
    SLUICE_RETURN_IF_ERROR(part_.Append(bytes));
    if (watcher_.on_bytes) watcher_.on_bytes(part_.size(), size_.value_or(0));
    return OkStatus();
  }

  // The checksum that the bytes on the disk have; empty if none is known.
  Result<std::string> Check() {
    if (checksum_.hex.empty()) return std::string();
    if (watcher_.on_check) watcher_.on_check();
    return DigestOfFile(PartFile::NameOf(download_.path), checksum_.kind, options_.stopped);
  }

  std::string Name() const { return ShownUrl(download_.url); }

  HttpClient& client_;
  const Download& download_;
  const RetryOptions& options_;
  const Watcher& watcher_;
  PartFile& part_;
  std::optional<uint64_t> size_;
  Checksum checksum_;
  std::string etag_;  // of the bytes in the part; or empty
};

}  // namespace

Result<Checksum> DownloadFile(HttpClient& client, const Download& download,
                              const RetryOptions& options, const Watcher& watcher) {
  PartFile part(download.path);
  SLUICE_RETURN_IF_ERROR(part.Open());
  return Fetching(client, download, options, watcher, part).Run();
}

Status WithRetries(const RetryOptions& options, const std::function<Status()>& ask) {
  Retrying retrying(options);
  for (;;) {
    const Status status = ask();
    if (status.ok()) return status;
    SLUICE_RETURN_IF_ERROR(retrying.Again(status, false));
  }
}

uint64_t PartBytes(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(PartFile::NameOf(path), error);
  return error ? 0 : bytes;
}

Result<std::string> DigestOfFile(const std::string& path, Checksum::Kind kind,
                                 const std::function<bool()>& stopped) {
  SLUICE_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  Digest digest(kind, file.size());
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    if (stopped && stopped()) return Stopped();
    const ssize_t got = read(file.fd(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, "cannot be read", errno);
    if (got == 0) return digest.Hex();
    digest.Add({piece.data(), static_cast<size_t>(got)});
  }
}

Result<bool> HoldsFile(const std::string& path, std::optional<uint64_t> size,
                       const Checksum& checksum, const std::function<bool()>& stopped) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  if (size && fs::file_size(path, error) != *size) return false;
  if (checksum.kind == Checksum::Kind::kNone) return size.has_value();
  SLUICE_ASSIGN_OR_RETURN(const std::string found, DigestOfFile(path, checksum.kind, stopped));
  return found == checksum.hex;
}

Status CheckRoom(const std::string& folder, uint64_t bytes) {
  struct statvfs info = {};
  if (statvfs(folder.c_str(), &info) != 0) return OkStatus();  // writing will tell
  const uint64_t room = uint64_t{info.f_bavail} * info.f_frsize;
  if (bytes <= room) return OkStatus();
  return {StatusCode::kIo,
          StrCat(FormatBytes(bytes), " are to be fetched and the disk of ", folder, " has ",
                 FormatBytes(room), " free; free some, or set SLUICE_CACHE to a folder elsewhere")};
}

}  // namespace sluice::fetch
