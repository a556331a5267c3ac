// Status and Result<T>: how every operation that can fail reports it. No exception crosses a
// folder. Both are values; any thread may hold and copy them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

enum class StatusCode {
  kOk,
  kInvalidArgument,     // the caller's input is wrong; HTTP 400, exit 2
  kUnauthenticated,     // no or wrong API key; HTTP 401
  kNotFound,            // a named thing does not exist; HTTP 404
  kTooLarge,            // a prompt over the context, HTTP 400; a file over its limit; exit 2
  kUnprocessable,       // a schema, grammar or template cannot be compiled; HTTP 422
  kResourceExhausted,   // a queue is full, try later; HTTP 429
  kUnavailable,         // draining, paused or not yet ready; HTTP 503
  kCancelled,           // the caller gave up
  kDeadlineExceeded,    // a time limit passed
  kBadModel,            // a model file is malformed or does not fit its config; exit 3
  kDevice,              // the device failed or is absent; exit 4
  kOutOfMemory,         // the device or host memory does not suffice; exit 4
  kFailedPrecondition,  // a call in the wrong state
  kUnimplemented,       // this build or device cannot do it; the message names feature and remedy
  kIo,                  // a file or socket operation failed
  kInternal,            // a defect of ours
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  // `message` is one sentence: what, the value, the limit, the remedy. `field` names the offending
  // input (a JSON field, a flag) and may be empty.
  Status(StatusCode code, std::string message, std::string field = {})
      : code_(code), message_(std::move(message)), field_(std::move(field)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& field() const { return field_; }

  // The same error with "context: " in front of its message.
  Status WithContext(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::string field_;
};

inline Status OkStatus() { return {}; }
inline Status InvalidArgument(std::string message, std::string field = {}) {
  return {StatusCode::kInvalidArgument, std::move(message), std::move(field)};
}
inline Status BadModel(std::string message) { return {StatusCode::kBadModel, std::move(message)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  // REQUIRES: !status.ok()
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // REQUIRES: ok()
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace sluice

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)
// Returns the status of `expr` from the enclosing function unless it is ok.
#define SLUICE_RETURN_IF_ERROR(expr)                                                           \
  do {                                                                                         \
    if (::sluice::Status sluice_status_ = (expr); !sluice_status_.ok()) return sluice_status_; \
  } while (false)
// SLUICE_ASSIGN_OR_RETURN(auto x, F()): x = value of F(), or returns its status.
#define SLUICE_ASSIGN_OR_RETURN(lhs, expr) \
  SLUICE_ASSIGN_OR_RETURN_IMPL(SLUICE_CONCAT(sluice_result_, __LINE__), lhs, expr)
#define SLUICE_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return result.status();             \
  lhs = std::move(result).value()
