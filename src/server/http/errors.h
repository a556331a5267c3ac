// Errors as each API's clients expect them. Pure functions.
#pragma once

#include <string>

#include "base/json.h"
#include "server/http/http.h"
#include "sluice/status.h"

namespace sluice::server {

// The HTTP status that a failed operation answers with.
int HttpStatusOf(StatusCode code);

// Whose error object a body is.
enum class ErrorForm {
  kOpenAi,     // {"error": {"message", "type", "param", "code"}}; `param` is the status's field
  kAnthropic,  // {"type": "error", "error": {"type", "message"}}
  kOllama,     // {"error": "the message"}
  kCohere,     // {"message": "the message"}
};

std::string ErrorBody(const Status& status, ErrorForm form = ErrorForm::kOpenAi);
HttpReply ErrorReply(const Status& status, ErrorForm form = ErrorForm::kOpenAi);

// An answer's body, or what went wrong instead.
HttpReply BodyReply(Result<std::string> body, ErrorForm form = ErrorForm::kOpenAi);
HttpReply JsonReply(const OrderedJson& json);

// The same for an error that only HTTP knows (404 of a path, 405, 408, 431).
HttpReply HttpErrorReply(int http_status, const std::string& message,
                         ErrorForm form = ErrorForm::kOpenAi);

}  // namespace sluice::server
