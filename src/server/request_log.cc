#include "server/request_log.h"

#include <cmath>

#include "base/clock.h"
#include "base/log_fields.h"
#include "base/rounded.h"
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
  return InvalidArgument(
      StrCat("--log-requests is ", Quote(text), "; it must be none, errors or all"),
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

OrderedJson RequestFields(const ExchangeRecord& record) {
  OrderedJson fields{{"status", record.status}, {"duration_ms", Rounded(record.ms)}};
  const auto add = [&](const char* name, const std::string& value, size_t bytes_max) {
    if (!value.empty()) fields[name] = Visible(std::string_view(value).substr(0, bytes_max));
  };
  add("method", record.method, kPathBytesMax);
  add("path", record.path, kPathBytesMax);
  add("request_id", record.request_id, kPathBytesMax);
  add("client", record.address, kPathBytesMax);
  if (record.fields.is_object()) fields.update(record.fields);
  if (record.status >= 400) add("error", record.note, kNoteBytesMax);
  return fields;
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
  LogWithFields(good || record.status == kClientLeft ? LogLevel::kInfo
                : record.status < 500                ? LogLevel::kWarning
                                                     : LogLevel::kError,
                RequestLine(record), [&record] { return RequestFields(record); });
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
