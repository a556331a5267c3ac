#include "server/request_log.h"

#include <cmath>

#include "base/clock.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::server {
namespace {

constexpr size_t kPathBytesMax = 256;
constexpr size_t kNoteBytesMax = 512;
constexpr size_t kErrorsKept = 32;

}  // namespace

Result<RequestsLogged> ParseRequestsLogged(const std::string& text) {
  if (text == "none") return RequestsLogged::kNone;
  if (text == "errors") return RequestsLogged::kErrors;
  if (text == "all") return RequestsLogged::kAll;
  return InvalidArgument(StrCat("--log-requests is \"", text, "\"; it must be none, errors or all"),
                         "log-requests");
}

std::string RequestLine(const ExchangeRecord& record) {
  std::string line = record.method.empty() ? "what is no request"
                                           : StrCat(record.method.substr(0, kPathBytesMax), " ",
                                                    record.path.substr(0, kPathBytesMax));
  line += StrCat(" ", record.status, " in ", std::lround(record.ms), " ms");
  if (record.status == kClientLeft) line += ", the client left";
  if (!record.note.empty()) line += ": " + record.note.substr(0, kNoteBytesMax);
  if (!record.request_id.empty()) line += "; id " + record.request_id;
  if (!record.address.empty()) line += ", from " + record.address;
  return line;
}

void RequestLog::Add(const ExchangeRecord& record, const std::string& route) {
  const bool good = record.status < 400;
  {
    std::lock_guard lock(mutex_);
    ++requests_[{route, record.status}];
    if (!good) {
      errors_.push_front({{"at_ms", NowMicros() / 1000},
                          {"status", record.status},
                          {"method", Visible(record.method.substr(0, kPathBytesMax))},
                          {"path", Visible(record.path.substr(0, kPathBytesMax))},
                          {"id", record.request_id},
                          {"message", Visible(record.note.substr(0, kNoteBytesMax))}});
      if (errors_.size() > kErrorsKept) errors_.pop_back();
    }
  }
  if (which_ == RequestsLogged::kNone || (which_ == RequestsLogged::kErrors && good)) return;
  if (good && record.method == "GET") return;
  Log(good || record.status == kClientLeft ? LogLevel::kInfo
      : record.status < 500                ? LogLevel::kWarning
                                           : LogLevel::kError,
      RequestLine(record));
}

OrderedJson RequestLog::RecentErrors() const {
  std::lock_guard lock(mutex_);
  return OrderedJson(errors_);
}

std::string RequestLog::Metrics() const {
  std::string text =
      "# HELP sluice_http_requests_total Requests by path and status of the answer; 499: the "
      "client left\n# TYPE sluice_http_requests_total counter\n";
  std::lock_guard lock(mutex_);
  for (const auto& [key, count] : requests_) {
    text += StrCat("sluice_http_requests_total{path=\"", key.first, "\",status=\"", key.second,
                   "\"} ", count, "\n");
  }
  return text;
}

}  // namespace sluice::server
