#include "server/http/errors.h"

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

const char* AnthropicTypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

struct ErrorFacts {
  int http_status;
  const std::string& message;
  const std::string& param;
  bool over_context;
};

std::string Body(const ErrorFacts& facts, ErrorForm form) {
  if (form == ErrorForm::kOllama) return DumpJson(OrderedJson{{"error", facts.message}});
  if (form == ErrorForm::kCohere) return DumpJson(OrderedJson{{"message", facts.message}});
  OrderedJson error;
  if (form == ErrorForm::kAnthropic) {
    error["type"] = AnthropicTypeOf(facts.http_status);
    error["message"] = facts.message;
    return DumpJson(OrderedJson{{"type", "error"}, {"error", std::move(error)}});
  }
  error["message"] = facts.message;
  error["type"] = TypeOf(facts.http_status);
  error["param"] = facts.param.empty() ? OrderedJson(nullptr) : OrderedJson(facts.param);
  error["code"] = CodeOf(facts.http_status, facts.param, facts.over_context);
  return DumpJson(OrderedJson{{"error", std::move(error)}});
}

ErrorFacts FactsOf(const Status& status) {
  // What an engine refuses as too large is a prompt.
  return {HttpStatusOf(status.code()), status.message(), status.field(),
          status.code() == StatusCode::kTooLarge};
}

HttpReply Reply(const ErrorFacts& facts, ErrorForm form) {
  HttpReply reply;
  reply.status = facts.http_status;
  reply.error = facts.message;
  reply.body = Body(facts, form);
  if (reply.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (reply.status == 429 || reply.status == 503) {
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
    case StatusCode::kCancelled:  // by the server, as CancelledByServer tells
    case StatusCode::kOutOfMemory:
      return 503;
    case StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string ErrorBody(const Status& status, ErrorForm form) { return Body(FactsOf(status), form); }

HttpReply ErrorReply(const Status& status, ErrorForm form) { return Reply(FactsOf(status), form); }

HttpReply BodyReply(Result<std::string> body, ErrorForm form) {
  if (!body.ok()) return ErrorReply(body.status(), form);
  HttpReply reply;
  reply.body = std::move(body).value();
  return reply;
}

HttpReply JsonReply(const OrderedJson& json) {
  HttpReply reply;
  reply.body = DumpJson(json);
  return reply;
}

HttpReply HttpErrorReply(int http_status, const std::string& message, ErrorForm form) {
  return Reply({http_status, message, "", false}, form);
}

}  // namespace sluice::server
