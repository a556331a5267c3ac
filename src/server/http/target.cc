#include "server/http/target.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/ascii.h"
#include "base/parse_number.h"

namespace sluice::server {
namespace {

// RFC 9110 allows more in a name (escapes, !$&'()*+,;=); no name that is in use has them.
bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

// The length of "http://" or "https://" at the beginning; 0 without either.
size_t SchemeBytes(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (Lower(target.substr(0, scheme.size())) == scheme) return scheme.size();
  }
  return 0;
}

bool IsPort(std::string_view text) { return ParseNumber<uint16_t>(text).has_value(); }

bool IsIpv6(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace

std::string PathOf(std::string_view target) {
  if (const size_t scheme = SchemeBytes(target)) {
    target.remove_prefix(std::min(target.size(), target.find_first_of("/?", scheme)));
    if (!target.starts_with('/')) return "/";
  }
  return std::string(target.substr(0, target.find('?')));
}

std::string QueryOf(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  return mark == std::string_view::npos ? "" : std::string(target.substr(mark + 1));
}

std::string QueryValue(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) != name || equals == pair.size()) continue;
    std::string value(pair.substr(equals + 1));
    std::replace(value.begin(), value.end(), '+', ' ');
    return Unescaped(value);
  }
  return "";
}

std::string Unescaped(std::string_view escaped) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string text;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] == '%' && i + 2 < escaped.size() && digit(escaped[i + 1]) >= 0 &&
        digit(escaped[i + 2]) >= 0) {
      text += static_cast<char>(digit(escaped[i + 1]) * 16 + digit(escaped[i + 2]));
      i += 2;
    } else {
      text += escaped[i];
    }
  }
  return text;
}

std::optional<std::string_view> AuthorityOf(std::string_view target) {
  const size_t scheme = SchemeBytes(target);
  if (scheme == 0) return std::nullopt;
  target.remove_prefix(scheme);
  return target.substr(0, target.find_first_of("/?#"));
}

std::optional<std::string> HostOf(std::string_view authority) {
  std::string_view name = authority;
  std::string_view rest;
  const bool ipv6 = authority.starts_with('[');
  if (ipv6) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    name = authority.substr(1, end - 1);
    rest = authority.substr(end + 1);
  } else if (const size_t colon = authority.find(':'); colon != std::string_view::npos) {
    name = authority.substr(0, colon);
    rest = authority.substr(colon);
  }
  const bool bare = rest.empty() || rest == ":";
  if (!bare && (rest.front() != ':' || !IsPort(rest.substr(1)))) return std::nullopt;
  std::string host = Lower(name);
  if (ipv6) return IsIpv6(host) ? std::optional(host) : std::nullopt;
  if (host.ends_with('.')) host.pop_back();
  if (host.empty() || !std::all_of(host.begin(), host.end(), IsNameCharacter)) return std::nullopt;
  return host;
}

bool IsLoopbackName(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace sluice::server
