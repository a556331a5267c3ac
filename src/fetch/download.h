// One file from a URL to a path: resumed where an earlier try ended, checked, and under its name
// only when it is whole. One thread, and one process at a time for a path (folder_lock.h).
//
// Until then its bytes are in PATH.part, and PATH.part.note says what these are the beginning of.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "fetch/checksum.h"
#include "fetch/http_client.h"
#include "sluice/status.h"

namespace sluice::fetch {

struct Download {
  std::string url;
  std::string path;
  std::string bearer;            // a token for the URL's own host
  std::optional<uint64_t> size;  // bytes; unknown: what the server says
  Checksum checksum;             // none: that of the field X-Linked-Etag, if the server sends it
  // Called when the file is whole and checked, before it takes the place of what has its name; an
  // error leaves that there. May be null.
  std::function<Status()> before_naming;
};

struct RetryOptions {
  int retries = 3;  // in a row without progress
  std::function<bool()> stopped;
  // Seconds that the answer of the last failure asked to wait (Retry-After); 0: none.
  std::function<int64_t()> asked_pause;
};

// How much of the file there is, called often, with its size (0: not known); and that its checksum
// is being computed.
struct Watcher {
  std::function<void(uint64_t done, uint64_t size)> on_bytes;
  std::function<void()> on_check;
};

// Returns the checksum that held; its kind is none where nobody told one. What is left of a try
// that failed stays for the next, except bytes with a wrong checksum.
//
// kIo: the server's file has another size or checksum than is expected, the disk is full, or
// another failure that will not pass. Otherwise as HttpClient::Get.
Result<Checksum> DownloadFile(HttpClient& client, const Download& download,
                              const RetryOptions& options, const Watcher& watcher);

// Calls `ask` again, after a pause that doubles from a second or as long as the server asked, while
// its failures may pass and are no more than `options.retries`.
Status WithRetries(const RetryOptions& options, const std::function<Status()>& ask);

// Bytes of PATH.part that there are already.
uint64_t PartBytes(const std::string& path);

// The checksum of a file. kNotFound, kIo.
Result<std::string> DigestOfFile(const std::string& path, Checksum::Kind kind,
                                 const std::function<bool()>& stopped);

// Whether a file of `size` bytes is there and has the checksum. kCancelled.
Result<bool> HoldsFile(const std::string& path, std::optional<uint64_t> size,
                       const Checksum& checksum, const std::function<bool()>& stopped);

// kIo: the disk that holds `folder` has less than `bytes` free.
Status CheckRoom(const std::string& folder, uint64_t bytes);

}  // namespace sluice::fetch
