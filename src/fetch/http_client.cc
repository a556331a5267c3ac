#include "fetch/http_client.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "base/check.h"
#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "fetch/curl_library.h"

namespace sluice::fetch {
namespace {

constexpr long kRedirectsMax = 5;
constexpr size_t kHeaderBytesMax = 256u << 10;  // of all answers on the way
constexpr long kStalledBytesPerSecond = 1024;
constexpr int kTextSecondsMax = 120;

struct FreeUrl {
  void operator()(CURLU* url) const { Curl().url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, FreeUrl>;

struct FreeList {
  void operator()(curl_slist* list) const { Curl().slist_free_all(list); }
};

std::string PartOf(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (Curl().url_get(url.get(), part, &text, flags) != CURLUE_OK) return "";
  std::string out(text);
  Curl().free(text);
  return out;
}

// Null: it is no URL of HTTP.
Url ParseUrl(const std::string& text) {
  Url url(Curl().url());
  if (!url || Curl().url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK)
    return nullptr;
  const std::string scheme = PartOf(url, CURLUPART_SCHEME);
  return scheme == "http" || scheme == "https" ? std::move(url) : nullptr;
}

std::string OriginOf(const Url& url) {
  return StrCat(PartOf(url, CURLUPART_SCHEME), "://", PartOf(url, CURLUPART_HOST), ":",
                PartOf(url, CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

// "bytes 100-199/200", or "bytes */200" of an answer 416.
void ReadRange(std::string_view value, HttpHead* head) {
  constexpr std::string_view kUnit = "bytes ";
  if (!value.starts_with(kUnit)) return;
  value.remove_prefix(kUnit.size());
  const size_t slash = value.find('/');
  if (slash == value.npos) return;
  head->range_first = ParseNumber<uint64_t>(value.substr(0, value.find('-')));
  head->range_total = ParseNumber<uint64_t>(value.substr(slash + 1));
}

void ReadField(std::string_view line, HttpHead* head) {
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string name = Lower(line.substr(0, colon));
  const std::string_view value = Trimmed(line.substr(colon + 1));
  const bool quoted = value.size() > 2 && value.front() == '"' && value.back() == '"';
  if (name == "content-length") head->length = ParseNumber<uint64_t>(value);
  if (name == "content-range") ReadRange(value, head);
  if (name == "content-type") head->type = Trimmed(value.substr(0, value.find(';')));
  if (name == "etag" && quoted) head->etag = value;
  if (name == "x-linked-etag") {
    head->linked_etag = quoted ? value.substr(1, value.size() - 2) : value;
  }
}

Status StatusOf(int status, const std::string& url) {
  const std::string what = StrCat(ShownUrl(url), " answered with the status ", status);
  if (status == 401 || status == 403) return {StatusCode::kUnauthenticated, what};
  if (status == 404 || status == 410) return {StatusCode::kNotFound, what};
  if (status == 408 || status == 429 || status >= 500) return {StatusCode::kUnavailable, what};
  return {StatusCode::kIo, what};
}

Status FailureOf(CURLcode code, const std::string& url, const char* detail,
                 const HttpOptions& options) {
  const std::string shown = ShownUrl(url);
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
      return {StatusCode::kCancelled, "stopped by the user"};
    case CURLE_OPERATION_TIMEDOUT:
      return {StatusCode::kDeadlineExceeded,
              StrCat(shown, " is too slow: no connection within ", options.connect_seconds,
                     " s, or less than a KiB per second for ", options.stall_seconds, " s")};
    case CURLE_TOO_MANY_REDIRECTS:
      return {StatusCode::kIo, StrCat(shown, " redirects more than ", kRedirectsMax, " times")};
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {StatusCode::kIo,
              StrCat(shown, " redirects to what is not HTTP, or from HTTPS to HTTP")};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return {StatusCode::kIo,
              StrCat(shown, " has a certificate that is not trusted (", detail,
                     "); where an authority of its own signs it, name its file in SSL_CERT_FILE")};
    default:
      return {StatusCode::kUnavailable,
              StrCat(shown,
                     " cannot be read: ", *detail != '\0' ? detail : Curl().easy_strerror(code))};
  }
}

}  // namespace

struct HttpClient::Transfer {
  const std::function<Status(const HttpHead&)>& on_head;
  const std::function<Status(std::span<const std::byte>)>& sink;
  void* curl;
  HttpHead head;
  size_t header_bytes = 0;
  bool head_given = false;
  Status status;  // why the transfer is to end

  // Before the body, or behind an answer without one. False: the request ends.
  bool GiveHead() {
    head_given = true;
    char* url = nullptr;
    Curl().easy_getinfo(curl, CURLINFO_EFFECTIVE_URL, &url);
    head.url = url == nullptr ? "" : url;
    const bool good = (head.status >= 200 && head.status < 300) || head.status == 416;
    status = good ? on_head(head) : StatusOf(head.status, head.url);
    return status.ok();
  }
};

HttpClient::HttpClient(HttpOptions options)
    : options_(std::move(options)), curl_(Curl().easy_init()) {
  CHECK(curl_ != nullptr, "libcurl gives no handle");
}

HttpClient::~HttpClient() { Curl().easy_cleanup(curl_); }

size_t HttpClient::OnHeader(char* data, size_t size, size_t count, void* argument) {
  Transfer& transfer = *static_cast<Transfer*>(argument);
  const std::string_view line(data, size * count);
  transfer.header_bytes += line.size();
  if (transfer.header_bytes > kHeaderBytesMax) {
    transfer.status = {StatusCode::kIo, StrCat("an answer has more than ", kHeaderBytesMax,
                                               " bytes of header fields")};
    return 0;
  }
  if (line.starts_with("HTTP/")) {  // the next answer on the way
    HttpHead next;
    next.linked_etag = std::move(transfer.head.linked_etag);
    const std::string_view rest = line.substr(std::min(line.find(' '), line.size()));
    next.status = static_cast<int>(ParseNumber<uint64_t>(Trimmed(rest).substr(0, 3)).value_or(0));
    transfer.head = std::move(next);
  } else {
    ReadField(line, &transfer.head);
  }
  return line.size();
}

size_t HttpClient::OnBody(char* data, size_t size, size_t count, void* argument) {
  Transfer& transfer = *static_cast<Transfer*>(argument);
  const size_t bytes = size * count;
  if (!transfer.head_given && !transfer.GiveHead()) return 0;
  transfer.status = transfer.sink(std::as_bytes(std::span(data, bytes)));
  return transfer.status.ok() ? bytes : 0;
}

int HttpClient::OnProgress(void* client, int64_t, int64_t, int64_t, int64_t) {
  const auto& stopped = static_cast<HttpClient*>(client)->options_.stopped;
  return stopped && stopped() ? 1 : 0;
}

Status HttpClient::Perform(const HttpRequest& request, Transfer* transfer, int seconds_max) {
  const Url url = ParseUrl(request.url);
  if (!url) return {StatusCode::kIo, StrCat(Quote(request.url), " is no URL of HTTP")};
  Curl().easy_reset(curl_);
  char detail[CURL_ERROR_SIZE] = "";
  const auto set = [this](CURLoption option, auto value) {
    const CURLcode code = Curl().easy_setopt(curl_, option, value);
    CHECK(code == CURLE_OK, "option ", static_cast<int>(option), ": ", Curl().easy_strerror(code));
  };
  const bool secure = PartOf(url, CURLUPART_SCHEME) == "https";
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, secure ? "https" : "http");
  set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, kRedirectsMax);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_seconds));
  set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerSecond);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_seconds));
  if (seconds_max > 0) set(CURLOPT_TIMEOUT, static_cast<long>(seconds_max));
  set(CURLOPT_USERAGENT, "sluice");
  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_HEADERFUNCTION, &OnHeader);
  set(CURLOPT_HEADERDATA, static_cast<void*>(transfer));
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &OnProgress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(this));
  if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
  if (!request.bearer.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(CURLOPT_XOAUTH2_BEARER, request.bearer.c_str());
  }
  std::unique_ptr<curl_slist, FreeList> fields;
  const auto add = [&fields](const std::string& field) {
    fields.reset(Curl().slist_append(fields.release(), field.c_str()));
  };
  if (!request.accept.empty()) add(StrCat("Accept: ", request.accept));
  if (request.first_byte > 0) add(StrCat("Range: bytes=", request.first_byte, "-"));
  if (!request.if_range.empty()) add(StrCat("If-Range: ", request.if_range));
  if (fields) set(CURLOPT_HTTPHEADER, fields.get());

  const CURLcode code = Curl().easy_perform(curl_);
  Curl().easy_setopt(curl_, CURLOPT_ERRORBUFFER, nullptr);
  curl_off_t wait = 0;
  Curl().easy_getinfo(curl_, CURLINFO_RETRY_AFTER, &wait);
  retry_after_s_ = std::max<curl_off_t>(wait, 0);
  if (!transfer->status.ok()) return transfer->status;
  if (code != CURLE_OK) return FailureOf(code, request.url, detail, options_);
  if (!transfer->head_given && !transfer->GiveHead()) return transfer->status;
  return OkStatus();
}

Status HttpClient::Get(const HttpRequest& request,
                       const std::function<Status(const HttpHead&)>& on_head,
                       const std::function<Status(std::span<const std::byte>)>& sink) {
  Transfer transfer{on_head, sink, curl_};
  return Perform(request, &transfer, 0);
}

Result<HttpClient::Text> HttpClient::GetText(const HttpRequest& request, size_t bytes_max) {
  Text text;
  const auto on_head = [&](const HttpHead& head) -> Status {
    text.head = head;
    if (head.status == 200) return OkStatus();
    return {StatusCode::kIo, StrCat(ShownUrl(head.url), " answered with the status ", head.status)};
  };
  const auto sink = [&](std::span<const std::byte> bytes) -> Status {
    if (bytes.size() > bytes_max - text.body.size()) {
      return {StatusCode::kIo, StrCat(ShownUrl(request.url), " answers with more than ", bytes_max,
                                      " bytes, the limit of a list")};
    }
    text.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return OkStatus();
  };
  const std::function<Status(const HttpHead&)> head_function = on_head;
  const std::function<Status(std::span<const std::byte>)> sink_function = sink;
  Transfer transfer{head_function, sink_function, curl_};
  SLUICE_RETURN_IF_ERROR(Perform(request, &transfer, kTextSecondsMax));
  return text;
}

bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

std::string ShownUrl(const std::string& text) {
  const Url url = ParseUrl(text);
  if (!url) return Quote(text);
  for (const CURLUPart part :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    Curl().url_set(url.get(), part, nullptr, 0);
  }
  return Visible(PartOf(url, CURLUPART_URL));
}

Result<std::string> ResolveUrl(const std::string& base, const std::string& reference) {
  const Url from = ParseUrl(base);
  const Url to = ParseUrl(base);
  const Status wrong(StatusCode::kIo, StrCat(Quote(reference), " is no URL of HTTP"));
  if (!to || Curl().url_set(to.get(), CURLUPART_URL, reference.c_str(), 0) != CURLUE_OK)
    return wrong;
  const std::string scheme = PartOf(to, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return wrong;
  const bool same = OriginOf(from) == OriginOf(to);
  for (const CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD}) {
    const std::string value = PartOf(from, part);
    Curl().url_set(to.get(), part, same && !value.empty() ? value.c_str() : nullptr, 0);
  }
  Curl().url_set(to.get(), CURLUPART_FRAGMENT, nullptr, 0);
  return PartOf(to, CURLUPART_URL);
}

Status CheckHttp() {
  if (FindCurl() != nullptr) return OkStatus();
  return {StatusCode::kUnimplemented,
          "fetching needs the library libcurl.so.4, which is not installed or older than 7.85; on "
          "Debian, install the "
          "package libcurl4"};
}

Result<std::string> CheckUrl(const std::string& text, const std::string& what) {
  const Url url = Visible(text) == text ? ParseUrl(text) : nullptr;
  if (!url) {
    return InvalidArgument(StrCat(what, " is ", Quote(text),
                                  "; a URL that begins with https:// or http:// is needed"));
  }
  std::string out = text;
  while (out.ends_with('/')) out.pop_back();
  return out;
}

}  // namespace sluice::fetch
