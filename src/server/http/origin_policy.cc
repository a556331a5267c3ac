#include "server/http/origin_policy.h"

#include <algorithm>
#include <sstream>

#include "base/str_cat.h"
#include "base/visible.h"
#include "server/http/target.h"

namespace sluice::server {
namespace {

constexpr size_t kHeaderListBytesMax = 1024;

// Names of header fields with commas, which may be given back as they came.
bool IsHeaderList(const std::string& text) {
  return !text.empty() && text.size() <= kHeaderListBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == ',' || c == ' ';
         });
}

}  // namespace

Result<OriginPolicy> OriginPolicy::Parse(const std::string& allow_origin) {
  OriginPolicy policy;
  std::istringstream list(allow_origin);
  for (std::string origin; std::getline(list, origin, ',');) {
    if (origin == "*") {
      policy.every_ = true;
      continue;
    }
    const auto authority = AuthorityOf(origin);
    if (!authority || !HostOf(*authority) || !origin.ends_with(*authority)) {
      return InvalidArgument(
          StrCat(Quote(origin),
                 " is not an origin; write it as a browser does, https://NAME or "
                 "http://NAME:PORT without a path, several with commas"),
          "allow-origin");
    }
    policy.origins_.push_back(origin);
  }
  return policy;
}

bool OriginPolicy::Allows(const std::string& origin) const {
  if (origin.empty()) return false;
  return every_ || std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
}

std::string OriginPolicy::FieldsFor(const HttpRequest& head) const {
  if (!Allows(head.origin)) return "";
  return StrCat("Access-Control-Allow-Origin: ", every_ ? "*" : head.origin,
                "\r\nVary: Origin\r\nAccess-Control-Expose-Headers: X-Request-Id, Retry-After\r\n");
}

std::optional<HttpReply> OriginPolicy::Preflight(const HttpRequest& head) const {
  if (head.method != "OPTIONS" || head.asked_method.empty() || !Allows(head.origin))
    return std::nullopt;
  HttpReply reply;
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE");
  reply.headers.emplace_back("Access-Control-Allow-Headers", IsHeaderList(head.asked_headers)
                                                                 ? head.asked_headers
                                                                 : "authorization, content-type");
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

}  // namespace sluice::server
