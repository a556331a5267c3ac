// HTTP as a client, over libcurl: one request at a time, with time limits, and bounds on what an
// answer may hold. Follows at most five redirects, never from HTTPS to HTTP. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice::fetch {

struct HttpOptions {
  int connect_seconds = 30;
  int stall_seconds = 60;  // without a KiB per second on average
  std::string ca_file;     // certificates to trust; empty: those of the system
  // Asked about once a second; true ends a request with kCancelled.
  std::function<bool()> stopped;
};

struct HttpRequest {
  std::string url;
  std::string accept;       // media types; empty: any
  std::string bearer;       // a token; a redirect to another host, port or scheme loses it
  uint64_t first_byte = 0;  // asks for the bytes from here on
  std::string if_range;     // an entity tag: the whole file instead, if that has changed
};

// The head of the last answer, behind the redirects.
struct HttpHead {
  int status = 0;
  std::optional<uint64_t> length;       // Content-Length
  std::optional<uint64_t> range_first;  // Content-Range
  std::optional<uint64_t> range_total;
  std::string etag;         // a strong one, in its quotes; else empty
  std::string type;         // media type
  std::string linked_etag;  // X-Linked-Etag without quotes, of any answer on the way: the Hub names
                            // the checksum of a file in it, before it redirects to a store
  std::string url;          // where the answer came from
};

class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Calls `on_head` once and then `sink` for the bytes of the body; what they return other than ok
  // ends the request and is its status. Only answers of 200 to 299 and 416 come so far; of the
  // latter the body is nothing to keep, so `on_head` is to end it.
  //
  // kUnavailable: no connection, an answer that broke off, 408, 429 or 5xx; kDeadlineExceeded: a
  // time limit. Both may pass. kUnauthenticated: 401 or 403. kNotFound: 404 or 410. kIo: anything
  // else, like another status or a certificate that is not trusted.
  Status Get(const HttpRequest& request, const std::function<Status(const HttpHead&)>& on_head,
             const std::function<Status(std::span<const std::byte>)>& sink);

  struct Text {
    HttpHead head;
    std::string body;
  };
  // A body of at most `bytes_max`, in at most two minutes. Also kIo: it has more.
  Result<Text> GetText(const HttpRequest& request, size_t bytes_max);

  // Seconds that the last answer asked to wait before the next request (Retry-After); 0: none.
  int64_t retry_after_s() const { return retry_after_s_; }

 private:
  struct Transfer;
  static size_t OnHeader(char* data, size_t size, size_t count, void* transfer);
  static size_t OnBody(char* data, size_t size, size_t count, void* transfer);
  static int OnProgress(void* client, int64_t, int64_t, int64_t, int64_t);
  Status Perform(const HttpRequest& request, Transfer* transfer, int seconds_max);

  const HttpOptions options_;
  void* const curl_;
  int64_t retry_after_s_ = 0;
};

// Whether a failure may pass, so that asking again makes sense.
bool MayPass(const Status& status);

// `url` for people: without user, password and query.
std::string ShownUrl(const std::string& url);

// What `reference` means on the page at `base`; a password of the base is kept on its own host
// alone. kIo: it is no URL of HTTP.
Result<std::string> ResolveUrl(const std::string& base, const std::string& reference);

// kUnimplemented: this machine lacks the library that everything else here needs.
Status CheckHttp();

// `what` names where the value came from. kInvalidArgument: no URL of HTTP. Gives it without a
// slash at its end.
Result<std::string> CheckUrl(const std::string& url, const std::string& what);

}  // namespace sluice::fetch
