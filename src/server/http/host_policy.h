// Which names a server answers to, and what a web page of another site may send it. A browser
// reaches a server on loopback for any page: under a name that the page's owner points at 127.0.0.1
// (DNS rebinding), or by a form that needs nobody's leave. Const; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http.h"

namespace sluice::server {

class HostPolicy {
 public:
  // `allow_host`: the names beside loopback, with commas; "*" is every name. `loopback_only`:
  // nobody but this machine should reach the server, and no key is asked for; the names then count
  // even if the list is empty. kInvalidArgument: a name is none.
  static Result<HostPolicy> Parse(const std::string& allow_host, bool loopback_only);

  // What refuses a request by its Host, Origin and Content-Type, or nothing.
  std::optional<HttpReply> Refuse(const HttpRequest& head) const;

 private:
  bool Knows(const std::string& host) const;
  bool IsForeign(const HttpRequest& head) const;

  bool restricted_ = false;         // only names that it knows are answered
  std::vector<std::string> names_;  // as HostOf gives them
};

}  // namespace sluice::server
