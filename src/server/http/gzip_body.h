// Bodies that a client has compressed. Any thread.
#pragma once

#include <cstddef>
#include <optional>

#include "server/http/http.h"

namespace sluice::server {

// Replaces the body of a request whose Content-Encoding is gzip or deflate by what it inflates to,
// which its lease then counts; without that header nothing happens. Gives what refuses the request:
// 415 for another coding, 400 for a body that is broken or ends early, 413 for one that inflates to
// more than `bytes_max`, 429 where the budget has no room. A body that grows a thousandfold is
// given up at its limit, and takes memory only as it grows.
std::optional<HttpReply> InflateBody(HttpRequest* request, size_t bytes_max);

}  // namespace sluice::server
