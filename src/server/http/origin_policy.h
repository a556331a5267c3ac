// Which web pages of other sites a browser lets read this server's answers (CORS, as the Fetch
// standard has it): those that the server names, by default none. Const; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http.h"

namespace sluice::server {

class OriginPolicy {
 public:
  // `allow_origin`: origins as "https://chat.example:8443", with commas; "*" is every one. None:
  // empty. kInvalidArgument: one is no origin.
  static Result<OriginPolicy> Parse(const std::string& allow_origin);

  // The header lines, each with its line end, that let the page read the answer; empty for a page
  // that may not, and for what is no page.
  std::string FieldsFor(const HttpRequest& head) const;
  // The answer to a browser that asks whether the page may send a request: a preflight, which has
  // no key. Nothing for any other request.
  std::optional<HttpReply> Preflight(const HttpRequest& head) const;

 private:
  bool Allows(const std::string& origin) const;

  bool every_ = false;
  std::vector<std::string> origins_;
};

}  // namespace sluice::server
