// Errors as OpenAI's clients expect them. Pure functions.
#pragma once

#include <string>

#include "server/http.h"
#include "sluice/status.h"

namespace sluice::server {

// The HTTP status that a failed operation answers with.
int HttpStatusOf(StatusCode code);

// {"error": {"message", "type", "param", "code"}}; `param` is the status's field.
std::string ErrorBody(const Status& status);
HttpReply ErrorReply(const Status& status);

// The same for an error that only HTTP knows (404 of a path, 405, 408, 431).
HttpReply HttpErrorReply(int http_status, const std::string& message);

}  // namespace sluice::server
