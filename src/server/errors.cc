#include "server/errors.h"

#include "base/json.h"

namespace sluice::server {
namespace {

// What a client waits before it tries a full queue again.
constexpr const char* kRetryAfterSeconds = "1";

const char* TypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

Json CodeOf(int http_status, const std::string& param, bool over_context) {
  if (over_context) return "context_length_exceeded";
  if (http_status == 401) return "invalid_api_key";
  if (http_status == 404 && param == "model") return "model_not_found";
  if (http_status == 429) return "queue_full";
  return nullptr;
}

std::string Body(int http_status, const std::string& message, const std::string& param,
                 bool over_context) {
  OrderedJson error;
  error["message"] = message;
  error["type"] = TypeOf(http_status);
  error["param"] = param.empty() ? OrderedJson(nullptr) : OrderedJson(param);
  error["code"] = CodeOf(http_status, param, over_context);
  return DumpJson(OrderedJson{{"error", std::move(error)}});
}

// What an engine refuses as too large is a prompt.
bool OverContext(const Status& status) { return status.code() == StatusCode::kTooLarge; }

HttpReply Reply(int http_status, const std::string& message, const std::string& param,
                bool over_context) {
  HttpReply reply;
  reply.status = http_status;
  reply.error = message;
  reply.body = Body(http_status, message, param, over_context);
  if (http_status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (http_status == 429 || http_status == 503) {
    reply.headers.emplace_back("Retry-After", kRetryAfterSeconds);
  }
  return reply;
}

}  // namespace

int HttpStatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kTooLarge:
      return 400;
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kUnprocessable:
      return 422;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnimplemented:
      return 501;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:  // by the server, as it shuts down: a client's own is not answered
    case StatusCode::kOutOfMemory:
      return 503;
    case StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string ErrorBody(const Status& status) {
  return Body(HttpStatusOf(status.code()), status.message(), status.field(), OverContext(status));
}

HttpReply ErrorReply(const Status& status) {
  return Reply(HttpStatusOf(status.code()), status.message(), status.field(), OverContext(status));
}

HttpReply HttpErrorReply(int http_status, const std::string& message) {
  return Reply(http_status, message, "", false);
}

}  // namespace sluice::server
