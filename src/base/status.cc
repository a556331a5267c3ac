#include "sluice/status.h"

namespace sluice {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kUnauthenticated:
      return "unauthenticated";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kTooLarge:
      return "too large";
    case StatusCode::kUnprocessable:
      return "unprocessable";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kDeadlineExceeded:
      return "deadline exceeded";
    case StatusCode::kBadModel:
      return "bad model";
    case StatusCode::kDevice:
      return "device";
    case StatusCode::kOutOfMemory:
      return "out of memory";
    case StatusCode::kFailedPrecondition:
      return "failed precondition";
    case StatusCode::kUnimplemented:
      return "unimplemented";
    case StatusCode::kIo:
      return "input/output";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, std::string(context) + ": " + message_, field_);
}

}  // namespace sluice
