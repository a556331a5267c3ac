#include "server/http/host_policy.h"

#include <algorithm>
#include <sstream>

#include "base/ascii.h"
#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/errors.h"
#include "server/http/target.h"

namespace sluice::server {
namespace {

// The content type that a page may not send to another site before the server has agreed, which
// this one does for the origins of --allow-origin alone.
bool IsJson(const std::string& content_type) {
  const std::string_view type(content_type);
  return Lower(Trimmed(type.substr(0, type.find(';')))) == "application/json";
}

}  // namespace

Result<HostPolicy> HostPolicy::Parse(const std::string& allow_host, bool loopback_only) {
  HostPolicy policy;
  bool every = false;
  std::istringstream list(allow_host);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "*") {
      every = true;
      continue;
    }
    const auto host = HostOf(name);
    if (!host || name.ends_with("]") != name.starts_with("[") ||
        (!name.starts_with("[") && name.find(':') != std::string::npos)) {
      return InvalidArgument(
          StrCat(Quote(name), " is not a host name; write names without ports, with commas"),
          "allow-host");
    }
    policy.names_.push_back(*host);
  }
  policy.restricted_ = !every && (loopback_only || !policy.names_.empty());
  return policy;
}

bool HostPolicy::Knows(const std::string& host) const {
  return IsLoopbackName(host) || std::find(names_.begin(), names_.end(), host) != names_.end();
}

// A page of this server itself, of this machine or of a listed name is none.
bool HostPolicy::IsForeign(const HttpRequest& head) const {
  if (head.origin.empty()) return false;
  const auto authority = AuthorityOf(head.origin);
  if (!authority) return true;
  if (*authority == head.host) return false;
  const auto host = HostOf(*authority);
  return !host || !Knows(*host);
}

std::optional<HttpReply> HostPolicy::Refuse(const HttpRequest& head) const {
  // Browsers name a host always; only HTTP/1.0 does without.
  if (restricted_ && !head.host.empty()) {
    const std::string host = HostOf(head.host).value_or("");
    if (!Knows(host)) {
      return HttpErrorReply(403, StrCat("this server does not answer to the host ", Quote(host),
                                        "; start it with --allow-host NAME to allow the name"));
    }
  }
  if (head.method == "POST" && IsForeign(head) && !IsJson(head.content_type)) {
    return HttpErrorReply(415,
                          "a request from a web page of another site needs the header "
                          "Content-Type: application/json");
  }
  return std::nullopt;
}

}  // namespace sluice::server
